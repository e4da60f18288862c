//! Whether an identity belongs to an organization, and with which role: by its claims, by variables, or by a directory.

use serde_json::Value;

use super::identity::{Belongs, Identity};
use super::{Denial, is_name};

/// Bytes of a directory's answer.
pub const DIRECTORY_BYTES: usize = 64 << 10;

/// What the variables say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MembershipRules {
    /// `ORGANIZATION_NAME`: of identities that name none.
    pub organization: Option<String>,
    /// `ADMINS`
    pub admins: Names,
    /// `MEMBERS`; empty admits everybody whom the provider knows.
    pub members: Names,
}

/// Accounts that a variable lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Reads a list separated by commas.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect())
    }

    /// Whether an account is listed. Of an entry that begins with `@`, every address of that domain is. Addresses are compared
    /// without regard to case.
    #[must_use]
    pub fn has(&self, account: &str) -> bool {
        self.0.iter().any(|name| {
            if name.starts_with('@') {
                let from = account.len().checked_sub(name.len()).filter(|from| *from > 0);
                from.and_then(|from| account.get(from..)).is_some_and(|end| end.eq_ignore_ascii_case(name))
            } else {
                name == account || name.contains('@') && name.eq_ignore_ascii_case(account)
            }
        })
    }

    /// Whether nobody is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A member of an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The account.
    pub account: String,
    /// The organization.
    pub organization: String,
    /// Whether it may administer.
    pub admin: bool,
}

/// What claims and variables say. A directory may still say otherwise.
pub fn decide_membership(identity: Identity, rules: &MembershipRules) -> Result<Member, Denial> {
    let Identity { account, organization, admin } = identity;
    let organization = match organization {
        Belongs::To(organization) => Some(organization),
        Belongs::Nowhere => None,
        Belongs::AsSet => rules.organization.clone(),
    };
    let Some(organization) = organization else {
        let message =
            "This account belongs to no organization here. Ask whoever runs the gateway to add it.".to_owned();
        return Err(Denial { message, account, organization: None });
    };
    let admin = admin || rules.admins.has(&account);
    if !admin && !rules.members.is_empty() && !rules.members.has(&account) {
        return Err(not_a_member(account, organization));
    }
    Ok(Member { account, organization, admin })
}

/// What a directory says of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryAnswer {
    /// A member; with the role, where the directory knows of roles.
    Member {
        /// `None`: claims and variables say.
        admin: Option<bool>,
    },
    /// Definitely none.
    NotAMember,
    /// It cannot be told. A refusal of *our* credential is this, and so is a page that is not there.
    Unknown,
}

/// Reads an answer of the directory: `{"member": true | false, "admin"?: true | false}` with 200, or with 404 and `false`.
#[must_use]
pub fn read_directory_answer(status: u16, body: &[u8]) -> DirectoryAnswer {
    let body: Value = match status {
        200 | 404 => crate::json::value_from_slice(body).unwrap_or(Value::Null),
        _ => Value::Null,
    };
    let admin = match body.get("admin") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(admin)) => Some(*admin),
        Some(_) => return DirectoryAnswer::Unknown,
    };
    match (status, body.get("member").and_then(Value::as_bool)) {
        (200, Some(true)) => DirectoryAnswer::Member { admin },
        (_, Some(false)) => DirectoryAnswer::NotAMember,
        (_, Some(true) | None) => DirectoryAnswer::Unknown,
    }
}

/// A member, once the directory was asked; `None` where that did not help.
#[must_use]
pub fn with_directory(member: Member, answer: DirectoryAnswer) -> Option<Result<Member, Denial>> {
    match answer {
        DirectoryAnswer::Member { admin } => Some(Ok(Member { admin: admin.unwrap_or(member.admin), ..member })),
        DirectoryAnswer::NotAMember => Some(Err(not_a_member(member.account, member.organization))),
        DirectoryAnswer::Unknown => None,
    }
}

fn not_a_member(account: String, organization: String) -> Denial {
    let shown = if is_name(&organization) { organization.as_str() } else { "of the token" };
    let message = format!(
        "This account has no access to the organization {shown}. Ask its administrator to add it, then try again."
    );
    Denial { message, account, organization: Some(organization) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(account: &str, organization: Option<&str>, admin: bool) -> Identity {
        let organization = organization.map_or(Belongs::AsSet, |name| Belongs::To(name.to_owned()));
        Identity { account: account.to_owned(), organization, admin }
    }

    #[test]
    fn variables_and_claims_say_who_belongs_where() {
        let rules = MembershipRules {
            organization: Some("acme".to_owned()),
            admins: Names::parse("boss@acme.example, ci.access"),
            members: Names::parse("@acme.example,guest"),
        };
        let decide = |one| decide_membership(one, &rules).map(|member| (member.organization, member.admin)).ok();
        let acme = |admin| Some(("acme".to_owned(), admin));
        assert_eq!(decide(identity("ann@acme.example", None, false)), acme(false));
        assert_eq!(decide(identity("Ann@ACME.example", None, false)), acme(false));
        assert_eq!(decide(identity("boss@acme.example", None, false)), acme(true));
        assert_eq!(decide(identity("ci.access", None, false)), acme(true));
        assert_eq!(decide(identity("guest", Some("other"), false)), Some(("other".to_owned(), false)));
        assert_eq!(decide(identity("who", None, true)), acme(true));
        for stranger in ["who", "ann@evil-acme.example", "@acme.example", "ann@acme.example.evil", "GUEST", "CI.access"]
        {
            assert_eq!(decide(identity(stranger, None, false)), None, "{stranger}");
        }
        let nowhere = decide_membership(identity("ann", None, false), &MembershipRules::default()).unwrap_err();
        assert_eq!((nowhere.account.as_str(), nowhere.organization), ("ann", None));
        assert!(decide_membership(identity("ann", Some("b"), false), &MembershipRules::default()).is_ok());
        // ORGANIZATION_NAME is not for those whose token should have named one.
        let removed = Identity { organization: Belongs::Nowhere, ..identity("ann@acme.example", None, false) };
        assert_eq!(decide(removed), None);
    }

    #[test]
    fn only_a_well_formed_no_is_a_no() {
        use DirectoryAnswer::{Member, NotAMember, Unknown};
        for (status, body, expected) in [
            (200, r#"{"member":true}"#, Member { admin: None }),
            (200, r#"{"member":true,"admin":true,"x":1}"#, Member { admin: Some(true) }),
            (200, r#"{"member":true,"admin":null}"#, Member { admin: None }),
            (200, r#"{"member":false}"#, NotAMember),
            (404, r#"{"member":false}"#, NotAMember),
            (404, r#"{"member":true}"#, Unknown),
            (404, "not found", Unknown),
            (404, "", Unknown),
            (200, "", Unknown),
            (200, "{}", Unknown),
            (200, "[]", Unknown),
            (200, r#"{"member":"false"}"#, Unknown),
            (200, r#"{"member":true,"admin":"yes"}"#, Unknown),
            (200, "<html>", Unknown),
            (204, r#"{"member":false}"#, Unknown),
            (401, r#"{"member":false}"#, Unknown),
            (403, r#"{"member":false}"#, Unknown),
            (410, r#"{"member":false}"#, Unknown),
            (429, r#"{"member":false}"#, Unknown),
            (500, r#"{"member":false}"#, Unknown),
        ] {
            assert_eq!(read_directory_answer(status, body.as_bytes()), expected, "{status} {body}");
        }
    }

    #[test]
    fn the_directory_has_the_last_word_on_roles_if_it_has_one() {
        let member = Member { account: "ann".to_owned(), organization: "acme".to_owned(), admin: true };
        let admin = |answer| with_directory(member.clone(), answer).and_then(Result::ok).map(|member| member.admin);
        assert_eq!(admin(DirectoryAnswer::Member { admin: None }), Some(true));
        assert_eq!(admin(DirectoryAnswer::Member { admin: Some(false) }), Some(false));
        assert_eq!(with_directory(member.clone(), DirectoryAnswer::Unknown), None);
        let denial = with_directory(member, DirectoryAnswer::NotAMember).unwrap().unwrap_err();
        assert_eq!((denial.account.as_str(), denial.organization.as_deref()), ("ann", Some("acme")));
    }
}
