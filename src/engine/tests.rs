//! Single transitions, as tables and stories.
