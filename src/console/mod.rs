//! Pages for people, rendered by the Worker. Views are plain values, templates only show them.
//! Nothing here decides, and no page carries a secret.

pub mod approval;
pub mod history;
pub mod pages;
