//! Who may decide on a call: the conditions of policy, and what is known of whoever decides.

use serde::{Deserialize, Serialize};

/// Who may decide, as rules say it. The conditions of several rules add up, and `owner` is the absence of any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approvers {
    /// The account that the session belongs to, and nobody else.
    #[default]
    Owner,
    /// Anybody of the organization with the role admin; the owner too, if that is one.
    Admin,
    /// Anybody of the organization but the session's owner.
    Other,
    /// An admin who is not the session's owner.
    OtherAdmin,
}

/// What is known of whoever decides, beside the account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The role admin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// Not the account that the session belongs to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other: bool,
}

impl Standing {
    /// The session's owner, without a role: who decided in older rows.
    #[must_use]
    pub fn is_plain_owner(&self) -> bool {
        *self == Self::default()
    }
}

impl Approvers {
    /// The word of a rule.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "owner" => Some(Self::Owner),
            "admin" => Some(Self::Admin),
            "other" => Some(Self::Other),
            _ => None,
        }
    }

    /// What is left of the possibilities where two rules count.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        match (self, more) {
            (Self::Owner, one) | (one, Self::Owner) => one,
            (Self::Admin, Self::Admin) => Self::Admin,
            (Self::Other, Self::Other) => Self::Other,
            (Self::Admin | Self::Other | Self::OtherAdmin, Self::Admin | Self::Other | Self::OtherAdmin) => {
                Self::OtherAdmin
            }
        }
    }

    /// Whether somebody may decide.
    #[must_use]
    pub fn admit(self, standing: Standing) -> bool {
        match self {
            Self::Owner => !standing.other,
            Self::Admin => standing.admin,
            Self::Other => standing.other,
            Self::OtherAdmin => standing.admin && standing.other,
        }
    }

    /// Whether a decision that satisfied `then` still counts under this rule: it is no stricter, or whoever decided
    /// satisfies it as well.
    #[must_use]
    pub fn still_satisfied(self, then: Self, standing: Standing) -> bool {
        (self.and(then) == then && then.admit(standing)) || self.admit(standing)
    }

    /// Nothing was said of it.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        *self == Self::Owner
    }

    /// Who that is, for a sentence: “Only … may decide”.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Owner => "the account that the session belongs to",
            Self::Admin => "an administrator of the organization",
            Self::Other => "somebody of the organization other than the account that the session belongs to",
            Self::OtherAdmin => "an administrator other than the account that the session belongs to",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Approvers; 4] = [Approvers::Owner, Approvers::Admin, Approvers::Other, Approvers::OtherAdmin];

    fn people() -> [Standing; 4] {
        [(false, false), (true, false), (false, true), (true, true)].map(|(admin, other)| Standing { admin, other })
    }

    #[test]
    fn conditions_add_up_and_owner_is_none() {
        for one in ALL {
            assert_eq!(one.and(one), one);
            assert_eq!(one.and(Approvers::Owner), one);
            assert_eq!(one.and(Approvers::OtherAdmin), Approvers::OtherAdmin);
            for other in ALL {
                assert_eq!(one.and(other), other.and(one));
                for third in ALL {
                    assert_eq!(one.and(other).and(third), one.and(other.and(third)));
                }
                // Beyond `owner`, which any other condition takes the place of, all conditions have to be met.
                if !one.is_owner() && !other.is_owner() {
                    for standing in people() {
                        let both = one.admit(standing) && other.admit(standing);
                        assert_eq!(one.and(other).admit(standing), both, "{one:?} {other:?} {standing:?}");
                    }
                }
            }
        }
        assert_eq!(Approvers::Admin.and(Approvers::Other), Approvers::OtherAdmin);
    }

    #[test]
    fn each_rule_admits_whom_it_names() {
        let admitted = |rule: Approvers| people().map(|standing| rule.admit(standing));
        // owner, owner with the role, other, other with the role
        assert_eq!(admitted(Approvers::Owner), [true, true, false, false]);
        assert_eq!(admitted(Approvers::Admin), [false, true, false, true]);
        assert_eq!(admitted(Approvers::Other), [false, false, true, true]);
        assert_eq!(admitted(Approvers::OtherAdmin), [false, false, false, true]);
    }

    #[test]
    fn a_decision_counts_until_the_rule_gets_stricter_than_who_made_it() {
        let owner = Standing::default();
        let other = Standing { admin: false, other: true };
        for (now, then, standing, expected) in [
            (Approvers::Owner, Approvers::Owner, owner, true),
            (Approvers::Other, Approvers::Owner, owner, false),
            (Approvers::Admin, Approvers::Owner, owner, false),
            (Approvers::Admin, Approvers::Owner, Standing { admin: true, other: false }, true),
            // Looser than it was.
            (Approvers::Owner, Approvers::Other, other, true),
            (Approvers::Other, Approvers::OtherAdmin, Standing { admin: true, other: true }, true),
            (Approvers::Admin, Approvers::Other, other, false),
            // A rule that was never satisfied helps nobody.
            (Approvers::Owner, Approvers::Other, owner, true),
            (Approvers::Other, Approvers::OtherAdmin, owner, false),
        ] {
            assert_eq!(now.still_satisfied(then, standing), expected, "{now:?} {then:?} {standing:?}");
        }
    }

    #[test]
    fn approvers_and_standing_format_unchanged() {
        assert_eq!(serde_json::to_string(&ALL).unwrap(), r#"["owner","admin","other","other_admin"]"#);
        let standing = Standing { admin: true, other: true };
        assert_eq!(serde_json::to_string(&standing).unwrap(), r#"{"admin":true,"other":true}"#);
        assert_eq!(serde_json::to_string(&Standing::default()).unwrap(), "{}");
    }
}
