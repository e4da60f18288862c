//! The settings of authentication: which providers there are, and what each has to know.

use std::collections::BTreeSet;

use super::{SettingsError, Vars, invalid, missing};
use crate::auth::DevMode;
use crate::auth::api_key::hash_admin_key;
use crate::auth::browser::CookieKeys;
use crate::auth::identity::ClaimNames;
use crate::auth::is_name;
use crate::auth::membership::{MembershipRules, Names};
use crate::auth::passphrase::PassphraseHash;
use crate::auth::settings::{
    AccessSettings, AuthSettings, Directory, KeySettings, OAuthSettings, OidcClient, OidcSettings, Owner, Provider,
};
use crate::auth::signed::SigningKeys;
use crate::credential::check_key;
use crate::protocol::cors::is_loopback;

const MODES: &str = "use \"dev\", \"access\", \"oidc\", \"keys\" or \"oauth\", or several separated by commas";
/// Requests per minute that count as a flood of one address, by default.
const FAILURES_PER_MINUTE: u64 = 1_000;
/// Sessions per minute of one account, by default.
const SESSIONS_PER_MINUTE: u64 = 300;

/// Variables that mean nothing without their mode: set without it, somebody believes that they count.
const OF_MODES: [(&str, &str); 9] = [
    ("ACCESS_TEAM_DOMAIN", "access"),
    ("ACCESS_AUDIENCE", "access"),
    ("OIDC_ISSUER", "oidc"),
    ("OIDC_AUDIENCE", "oidc"),
    ("OIDC_CLIENT_ID", "oidc"),
    ("OIDC_CLIENT_SECRET", "oidc"),
    ("COUNTERSIGN_ADMIN_KEY", "keys"),
    ("OWNER_PASSPHRASE_HASH", "oauth"),
    ("OWNER_ACCOUNT", "oauth"),
];

pub(super) fn parse_auth(vars: &impl Vars) -> Result<AuthSettings, SettingsError> {
    let modes = parse_modes(vars)?;
    for (name, mode) in OF_MODES {
        if vars.text(name).is_some() && !modes.iter().any(|one| one == mode) {
            return Err(invalid(name, &format!("it belongs to the mode \"{mode}\", which AUTH_MODE does not have")));
        }
    }
    let organization = vars.text("ORGANIZATION_NAME");
    if organization.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(invalid("ORGANIZATION_NAME", "use at most 200 characters"));
    }
    let providers = modes.iter().map(|mode| match mode.as_str() {
        "dev" => Ok(Provider::Dev(DevMode { require_token: vars.flag("DEV_REQUIRE_TOKEN")? })),
        "access" => parse_access(vars, organization.as_deref()).map(Provider::Access),
        "oidc" => parse_oidc(vars, organization.as_deref()).map(|oidc| Provider::Oidc(Box::new(oidc))),
        "oauth" => parse_oauth(vars, organization.as_deref()).map(|oauth| Provider::OAuth(Box::new(oauth))),
        _ => parse_keys(vars, organization.as_deref()).map(Provider::Keys),
    });
    let providers = providers.collect::<Result<Vec<_>, _>>()?;
    check_sign_in(&providers)?;
    let is_dev = modes.iter().any(|mode| mode == "dev");
    // Development mode believes every name: there is nothing to guess, and suites open many sessions.
    let limit = |name: &'static str, default: u64| match vars.text(name) {
        None if is_dev => Ok(None),
        _ => vars.number(name, default, 1, 1_000_000).map(|limit| u32::try_from(limit).ok()),
    };
    Ok(AuthSettings {
        providers,
        membership: MembershipRules { organization, admins: names(vars, "ADMINS"), members: names(vars, "MEMBERS") },
        directory: parse_directory(vars)?,
        cookies: parse_cookie_keys(vars)?,
        sign_in_ms: vars.number("SIGN_IN_MS", 8 * 3_600_000, 1_000, 30 * 86_400_000)?,
        timeout_ms: vars.number("IDENTITY_TIMEOUT_MS", 5_000, 10, 30_000)?,
        key_set_fresh_ms: vars.number("KEY_SET_FRESH_MS", 300_000, 0, 86_400_000)?,
        failures_per_minute: limit("AUTH_FAILURES_PER_MINUTE", FAILURES_PER_MINUTE)?,
        sessions_per_minute: limit("SESSIONS_PER_MINUTE", SESSIONS_PER_MINUTE)?,
    })
}

fn parse_modes(vars: &impl Vars) -> Result<Vec<String>, SettingsError> {
    let text = vars.text("AUTH_MODE").ok_or_else(|| {
        missing(
            "AUTH_MODE",
            "Set it to \"access\", \"oidc\", \"keys\" or \"oauth\" (or several, separated by commas), or to \"dev\" on your own machine.",
        )
    })?;
    let modes: Vec<String> = text.split(',').map(|mode| mode.trim().to_owned()).collect();
    let known = |mode: &String| matches!(mode.as_str(), "dev" | "access" | "oidc" | "keys" | "oauth");
    let different: BTreeSet<&String> = modes.iter().collect();
    if !modes.iter().all(known) || different.len() != modes.len() {
        return Err(invalid("AUTH_MODE", MODES));
    }
    Ok(modes)
}

fn names(vars: &impl Vars, name: &'static str) -> Names {
    Names::parse(&vars.text(name).unwrap_or_default())
}

fn list(vars: &impl Vars, name: &'static str) -> Vec<String> {
    let text = vars.text(name).unwrap_or_default();
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(ToOwned::to_owned).collect()
}

fn required_list(vars: &impl Vars, name: &'static str, advice: &'static str) -> Result<Vec<String>, SettingsError> {
    Some(list(vars, name)).filter(|list| !list.is_empty()).ok_or_else(|| missing(name, advice))
}

fn parse_access(vars: &impl Vars, organization: Option<&str>) -> Result<AccessSettings, SettingsError> {
    let advice = "AUTH_MODE has \"access\": set it to your team's domain, such as example.cloudflareaccess.com.";
    let domain = vars.text("ACCESS_TEAM_DOMAIN").ok_or_else(|| missing("ACCESS_TEAM_DOMAIN", advice))?;
    let text = match domain.as_str() {
        url if url.contains("://") => url.to_owned(),
        host if host.contains('.') => format!("https://{host}"),
        team => format!("https://{team}.cloudflareaccess.com"),
    };
    let issuer = safe_url("ACCESS_TEAM_DOMAIN", &text)?.origin().ascii_serialization();
    if organization.is_none() {
        let advice = "AUTH_MODE has \"access\", whose tokens name no organization: say which one its people belong to.";
        return Err(missing("ORGANIZATION_NAME", advice));
    }
    let advice = "AUTH_MODE has \"access\": set it to the Application Audience (AUD) Tag of the Access application.";
    let audiences = required_list(vars, "ACCESS_AUDIENCE", advice)?;
    let mcp_audiences = list(vars, "ACCESS_MCP_AUDIENCE");
    if mcp_audiences.iter().any(|audience| audiences.contains(audience)) {
        return Err(invalid("ACCESS_MCP_AUDIENCE", "it has to be another application than ACCESS_AUDIENCE"));
    }
    Ok(AccessSettings { issuer, audiences, mcp_audiences })
}

fn parse_oidc(vars: &impl Vars, organization: Option<&str>) -> Result<OidcSettings, SettingsError> {
    let advice = "AUTH_MODE has \"oidc\": set it to the issuer's URL, exactly as its tokens have it in iss.";
    let issuer = vars.text("OIDC_ISSUER").ok_or_else(|| missing("OIDC_ISSUER", advice))?;
    let url = safe_url("OIDC_ISSUER", &issuer)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("OIDC_ISSUER", "it must not have a query or a fragment"));
    }
    let advice = "AUTH_MODE has \"oidc\": set it to what the tokens for this gateway have in aud.";
    let audiences = required_list(vars, "OIDC_AUDIENCE", advice)?;
    let organization_claim = vars.text("OIDC_ORGANIZATION_CLAIM");
    if organization_claim.is_none() && organization.is_none() {
        let advice = "AUTH_MODE has \"oidc\": set it to the organization of all its accounts, or OIDC_ORGANIZATION_CLAIM to the claim that names it.";
        return Err(missing("ORGANIZATION_NAME", advice));
    }
    let admin = match (vars.text("OIDC_ADMIN_CLAIM"), vars.text("OIDC_ADMIN_VALUE")) {
        (None, None) => None,
        (Some(claim), Some(value)) => Some((claim, value)),
        (Some(_), None) => {
            return Err(missing(
                "OIDC_ADMIN_VALUE",
                "OIDC_ADMIN_CLAIM is set: say which value makes an administrator.",
            ));
        }
        (None, Some(_)) => {
            return Err(missing("OIDC_ADMIN_CLAIM", "OIDC_ADMIN_VALUE is set: say which claim has it."));
        }
    };
    let client = match (vars.text("OIDC_CLIENT_ID"), vars.text("OIDC_CLIENT_SECRET")) {
        (None, None) => None,
        (Some(id), Some(secret)) => {
            if vars.text("COUNTERSIGN_SECRET_KEY").is_none() {
                let advice = "OIDC_CLIENT_ID is set, and browsers that signed in carry a signed cookie: set it to at least 32 random characters, with `wrangler secret put COUNTERSIGN_SECRET_KEY`.";
                return Err(missing("COUNTERSIGN_SECRET_KEY", advice));
            }
            let scopes = vars.text("OIDC_SCOPES").unwrap_or_else(|| "openid profile email".to_owned());
            if !scopes.split(' ').any(|scope| scope == "openid") {
                return Err(invalid("OIDC_SCOPES", "it has to have the scope openid"));
            }
            Some(OidcClient { id: [id], secret, scopes })
        }
        (Some(_), None) => {
            return Err(missing(
                "OIDC_CLIENT_SECRET",
                "OIDC_CLIENT_ID is set: set it with `wrangler secret put OIDC_CLIENT_SECRET`.",
            ));
        }
        (None, Some(_)) => {
            return Err(missing("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET is set: set it to the client's id."));
        }
    };
    let account = vars.text("OIDC_ACCOUNT_CLAIM").unwrap_or_else(|| "sub".to_owned());
    let claims = ClaimNames { account, organization: organization_claim, admin };
    Ok(OidcSettings { issuer, audiences, claims, client })
}

fn parse_keys(vars: &impl Vars, organization: Option<&str>) -> Result<KeySettings, SettingsError> {
    let Some(key) = vars.text("COUNTERSIGN_ADMIN_KEY") else {
        return Ok(KeySettings { admin: None });
    };
    check_secret("COUNTERSIGN_ADMIN_KEY", &key)?;
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("COUNTERSIGN_ADMIN_KEY", "use letters, digits and punctuation without spaces"));
    }
    let advice = "COUNTERSIGN_ADMIN_KEY is set: say which organization it administers.";
    let organization = organization.ok_or_else(|| missing("ORGANIZATION_NAME", advice))?;
    Ok(KeySettings { admin: Some((hash_admin_key(&key), organization.to_owned())) })
}

fn parse_oauth(vars: &impl Vars, organization: Option<&str>) -> Result<OAuthSettings, SettingsError> {
    let advice = "AUTH_MODE has \"oauth\", whose tokens are signed: set it to at least 32 random characters, with `wrangler secret put COUNTERSIGN_SECRET_KEY`.";
    let current = vars.text("COUNTERSIGN_SECRET_KEY").ok_or_else(|| missing("COUNTERSIGN_SECRET_KEY", advice))?;
    check_secret("COUNTERSIGN_SECRET_KEY", &current)?;
    let owner = match vars.text("OWNER_PASSPHRASE_HASH") {
        None if vars.text("OWNER_ACCOUNT").is_some() => {
            let advice = "OWNER_ACCOUNT is set: set it to what `npm run passphrase` prints.";
            return Err(missing("OWNER_PASSPHRASE_HASH", advice));
        }
        None => None,
        Some(text) => {
            let passphrase = PassphraseHash::parse(&text)
                .ok_or_else(|| invalid("OWNER_PASSPHRASE_HASH", "use what `npm run passphrase` prints"))?;
            let advice = "OWNER_PASSPHRASE_HASH is set: say what the owner's organization is called, for example home.";
            let organization = organization.ok_or_else(|| missing("ORGANIZATION_NAME", advice))?.to_owned();
            let account = vars.text("OWNER_ACCOUNT").unwrap_or_else(|| "owner".to_owned());
            if !is_name(&account) {
                return Err(invalid("OWNER_ACCOUNT", "use at most 200 characters"));
            }
            Some(Owner { account, organization, passphrase })
        }
    };
    Ok(OAuthSettings {
        keys: SigningKeys { current, old: vars.text("COUNTERSIGN_SECRET_KEY_OLD") },
        access_token_ms: vars.number("ACCESS_TOKEN_MS", 900_000, 1_000, 86_400_000)?,
        refresh_token_ms: vars.number("REFRESH_TOKEN_MS", 30 * 86_400_000, 1_000, 400 * 86_400_000)?,
        owner,
    })
}

/// Somebody has to agree to what a client asks for.
fn check_sign_in(providers: &[Provider]) -> Result<(), SettingsError> {
    let asks = providers.iter().any(|provider| matches!(provider, Provider::OAuth(_)));
    if asks && !providers.iter().any(Provider::has_sign_in) {
        let advice = "AUTH_MODE has \"oauth\", and nobody could sign in to agree: set it to what `npm run passphrase` prints, or add \"access\", or \"oidc\" with OIDC_CLIENT_ID.";
        return Err(missing("OWNER_PASSPHRASE_HASH", advice));
    }
    Ok(())
}

fn parse_directory(vars: &impl Vars) -> Result<Option<Directory>, SettingsError> {
    let token = vars.text("DIRECTORY_TOKEN");
    match vars.text("DIRECTORY_URL") {
        None if token.is_some() => {
            Err(missing("DIRECTORY_URL", "DIRECTORY_TOKEN is set: set it to the directory's URL."))
        }
        None => Ok(None),
        Some(url) => Ok(Some(Directory { url: safe_url("DIRECTORY_URL", &url)?.into(), token })),
    }
}

/// A secret that is too weak stops the Worker where it is needed; where it is only used for stored credentials, writing those says so.
fn parse_cookie_keys(vars: &impl Vars) -> Result<CookieKeys, SettingsError> {
    let Some(secret) = vars.text("COUNTERSIGN_SECRET_KEY") else {
        return Ok(CookieKeys::default());
    };
    if vars.text("OIDC_CLIENT_ID").is_some() || vars.text("OWNER_PASSPHRASE_HASH").is_some() {
        check_secret("COUNTERSIGN_SECRET_KEY", &secret)?;
    } else if check_key("COUNTERSIGN_SECRET_KEY", &secret).is_err() {
        return Ok(CookieKeys::default());
    }
    Ok(CookieKeys::new(SigningKeys { current: secret, old: vars.text("COUNTERSIGN_SECRET_KEY_OLD") }))
}

fn check_secret(name: &'static str, secret: &str) -> Result<(), SettingsError> {
    let problem = "it is too weak; use at least 32 random characters, such as `openssl rand -base64 32` gives";
    check_key(name, secret).map_err(|_| invalid(name, problem))
}

/// An https URL; on this machine http will do.
fn safe_url(name: &'static str, text: &str) -> Result<url::Url, SettingsError> {
    let is_safe = |url: &url::Url| match url.scheme() {
        "https" => url.username().is_empty() && url.password().is_none(),
        "http" => is_loopback(url),
        _ => false,
    };
    url::Url::parse(text)
        .ok()
        .filter(is_safe)
        .ok_or_else(|| invalid(name, &format!("\"{text}\" is not an https URL such as https://id.example.com")))
}

#[cfg(test)]
mod tests {
    use super::super::parse_settings;
    use super::*;
    use crate::config::Settings;

    type Pairs<'p> = &'p [(&'p str, &'p str)];

    fn parse(vars: Pairs<'_>) -> Result<Settings, SettingsError> {
        parse_settings(|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    const STRONG: &str = "k3Jw0Zl8m1QxT5v9YbN2sRcU7eHgPa4D";
    const OIDC: Pairs<'_> = &[
        ("AUTH_MODE", "oidc"),
        ("OIDC_ISSUER", "https://id.example"),
        ("OIDC_AUDIENCE", "gw"),
        ("ORGANIZATION_NAME", "acme"),
    ];
    const ACCESS: Pairs<'_> = &[
        ("AUTH_MODE", "access"),
        ("ACCESS_TEAM_DOMAIN", "team"),
        ("ACCESS_AUDIENCE", "a,b"),
        ("ORGANIZATION_NAME", "acme"),
    ];
    const KEYS: Pairs<'_> = &[("AUTH_MODE", "keys"), ("COUNTERSIGN_ADMIN_KEY", STRONG), ("ORGANIZATION_NAME", "acme")];

    /// `base`, with other values for some names; an empty one takes a name away.
    fn with<'p>(base: Pairs<'p>, changes: Pairs<'p>) -> Vec<(&'p str, &'p str)> {
        let kept = base.iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        kept.chain(changes).filter(|(_, value)| !value.is_empty()).copied().collect()
    }

    #[test]
    fn what_is_missing_or_contradictory_is_named() {
        for (base, changes, named) in [
            (OIDC, &[("AUTH_MODE", "oidc,oidc")] as Pairs<'_>, "AUTH_MODE"),
            (OIDC, &[("AUTH_MODE", "oidc,ldap")], "AUTH_MODE"),
            (OIDC, &[("AUTH_MODE", "oidc,")], "AUTH_MODE"),
            (OIDC, &[("OIDC_ISSUER", "")], "OIDC_ISSUER"),
            (OIDC, &[("OIDC_ISSUER", "id.example")], "OIDC_ISSUER"),
            (OIDC, &[("OIDC_ISSUER", "http://id.example")], "OIDC_ISSUER"),
            (OIDC, &[("OIDC_ISSUER", "https://id.example?x")], "OIDC_ISSUER"),
            (OIDC, &[("OIDC_AUDIENCE", "")], "OIDC_AUDIENCE"),
            (OIDC, &[("OIDC_AUDIENCE", " , ")], "OIDC_AUDIENCE"),
            (OIDC, &[("ORGANIZATION_NAME", "")], "ORGANIZATION_NAME"),
            (OIDC, &[("OIDC_ADMIN_CLAIM", "roles")], "OIDC_ADMIN_VALUE"),
            (OIDC, &[("OIDC_ADMIN_VALUE", "boss")], "OIDC_ADMIN_CLAIM"),
            (OIDC, &[("OIDC_CLIENT_ID", "c"), ("COUNTERSIGN_SECRET_KEY", STRONG)], "OIDC_CLIENT_SECRET"),
            (OIDC, &[("OIDC_CLIENT_SECRET", "s"), ("COUNTERSIGN_SECRET_KEY", STRONG)], "OIDC_CLIENT_ID"),
            (OIDC, &[("OIDC_CLIENT_ID", "c"), ("OIDC_CLIENT_SECRET", "s")], "COUNTERSIGN_SECRET_KEY"),
            (
                OIDC,
                &[("OIDC_CLIENT_ID", "c"), ("OIDC_CLIENT_SECRET", "s"), ("COUNTERSIGN_SECRET_KEY", "short")],
                "COUNTERSIGN_SECRET_KEY",
            ),
            (
                OIDC,
                &[
                    ("OIDC_CLIENT_ID", "c"),
                    ("OIDC_CLIENT_SECRET", "s"),
                    ("COUNTERSIGN_SECRET_KEY", STRONG),
                    ("OIDC_SCOPES", "email"),
                ],
                "OIDC_SCOPES",
            ),
            (OIDC, &[("COUNTERSIGN_ADMIN_KEY", STRONG)], "COUNTERSIGN_ADMIN_KEY"),
            (OIDC, &[("ACCESS_TEAM_DOMAIN", "team")], "ACCESS_TEAM_DOMAIN"),
            (OIDC, &[("DIRECTORY_TOKEN", "t")], "DIRECTORY_URL"),
            (OIDC, &[("DIRECTORY_URL", "http://directory.example")], "DIRECTORY_URL"),
            (OIDC, &[("SIGN_IN_MS", "1")], "SIGN_IN_MS"),
            (OIDC, &[("IDENTITY_TIMEOUT_MS", "never")], "IDENTITY_TIMEOUT_MS"),
            (OIDC, &[("AUTH_FAILURES_PER_MINUTE", "0")], "AUTH_FAILURES_PER_MINUTE"),
            (ACCESS, &[("ACCESS_TEAM_DOMAIN", "")], "ACCESS_TEAM_DOMAIN"),
            (ACCESS, &[("ACCESS_TEAM_DOMAIN", "http://team.example")], "ACCESS_TEAM_DOMAIN"),
            (ACCESS, &[("ACCESS_AUDIENCE", "")], "ACCESS_AUDIENCE"),
            (ACCESS, &[("ACCESS_MCP_AUDIENCE", "b")], "ACCESS_MCP_AUDIENCE"),
            (ACCESS, &[("ORGANIZATION_NAME", "")], "ORGANIZATION_NAME"),
            (ACCESS, &[("OIDC_ISSUER", "https://id.example")], "OIDC_ISSUER"),
            (KEYS, &[("COUNTERSIGN_ADMIN_KEY", "secret")], "COUNTERSIGN_ADMIN_KEY"),
            (KEYS, &[("COUNTERSIGN_ADMIN_KEY", "k3Jw0Zl8m1QxT5v9 YbN2sRcU7eHgPa4D")], "COUNTERSIGN_ADMIN_KEY"),
            (KEYS, &[("ORGANIZATION_NAME", "")], "ORGANIZATION_NAME"),
        ] {
            let message = parse(&with(base, changes)).unwrap_err().to_string();
            assert!(message.contains(&format!("variable {named} ")), "{changes:?}: {message}");
            assert!(!message.contains(STRONG), "{message}");
        }
    }

    #[test]
    fn what_is_enough_is_taken() {
        for vars in [
            with(OIDC, &[]),
            with(OIDC, &[("OIDC_ISSUER", "http://127.0.0.1:9")]),
            with(OIDC, &[("ORGANIZATION_NAME", ""), ("OIDC_ORGANIZATION_CLAIM", "org")]),
            with(OIDC, &[("OIDC_ORGANIZATION_CLAIM", "org")]),
            with(OIDC, &[("OIDC_CLIENT_ID", "c"), ("OIDC_CLIENT_SECRET", "s"), ("COUNTERSIGN_SECRET_KEY", STRONG)]),
            with(ACCESS, &[("ACCESS_MCP_AUDIENCE", "c")]),
            with(KEYS, &[]),
            with(KEYS, &[("COUNTERSIGN_ADMIN_KEY", ""), ("ORGANIZATION_NAME", "")]),
            with(OIDC, &[("AUTH_MODE", "keys, oidc,dev")]),
        ] {
            assert!(parse(&vars).is_ok(), "{vars:?}: {:?}", parse(&vars));
        }
        let team = |domain| {
            let auth = parse(&with(ACCESS, &[("ACCESS_TEAM_DOMAIN", domain)])).unwrap().auth;
            auth.access().unwrap().issuer.clone()
        };
        for domain in ["team", "team.cloudflareaccess.com", "https://team.cloudflareaccess.com/"] {
            assert_eq!(team(domain), "https://team.cloudflareaccess.com");
        }
    }

    #[test]
    fn secrets_are_not_printed_with_the_settings() {
        let secrets =
            [("OIDC_CLIENT_ID", "c"), ("OIDC_CLIENT_SECRET", "hush-hush"), ("COUNTERSIGN_SECRET_KEY", STRONG)];
        let more = [("DIRECTORY_URL", "https://d.example"), ("DIRECTORY_TOKEN", "hush-hush")];
        let vars: Vec<_> = OIDC.iter().chain(&secrets).chain(&more).copied().collect();
        let printed = format!("{:?}", parse(&vars).unwrap());
        assert!(!printed.contains("hush-hush") && !printed.contains(STRONG), "{printed}");
    }

    #[test]
    fn limits_are_off_only_in_development_mode() {
        let limits = |vars: Pairs<'_>| {
            let auth = parse(vars).unwrap().auth;
            (auth.failures_per_minute, auth.sessions_per_minute)
        };
        assert_eq!(limits(&[("AUTH_MODE", "dev")]), (None, None));
        assert_eq!(limits(&[("AUTH_MODE", "dev"), ("SESSIONS_PER_MINUTE", "5")]), (None, Some(5)));
        assert_eq!(limits(OIDC), (Some(1_000), Some(300)));
    }
}
