//! What is set about authentication. `config` reads it from variables.

use super::browser::CookieKeys;
use super::identity::ClaimNames;
use super::membership::MembershipRules;
use super::passphrase::PassphraseHash;
use super::signed::SigningKeys;
use super::{DevMode, Principal, Purpose};

/// Everything about authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSettings {
    /// `AUTH_MODE`: tried in this order.
    pub providers: Vec<Provider>,
    /// `ORGANIZATION_NAME`, `ADMINS`, `MEMBERS`
    pub membership: MembershipRules,
    /// `DIRECTORY_URL`
    pub directory: Option<Directory>,
    /// Keys of cookies, from `COUNTERSIGN_SECRET_KEY` and `COUNTERSIGN_SECRET_KEY_OLD`.
    pub cookies: CookieKeys,
    /// `SIGN_IN_MS`: how long a browser stays signed in.
    pub sign_in_ms: u64,
    /// `IDENTITY_TIMEOUT_MS`: how long an issuer or the directory may take.
    pub timeout_ms: u64,
    /// `KEY_SET_FRESH_MS`: how long a key set is used before it is read again.
    pub key_set_fresh_ms: u64,
    /// `AUTH_FAILURES_PER_MINUTE`: of one address, in one isolate; `None` is no limit.
    pub failures_per_minute: Option<u32>,
    /// `SESSIONS_PER_MINUTE`: of one account, in one isolate; `None` is no limit.
    pub sessions_per_minute: Option<u32>,
}

/// A way to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// Every name is believed.
    Dev(DevMode),
    /// Cloudflare Access.
    Access(AccessSettings),
    /// Tokens of an `OpenID` Connect issuer.
    Oidc(Box<OidcSettings>),
    /// API keys of the gateway.
    Keys(KeySettings),
    /// The gateway as an authorization server of its own.
    OAuth(Box<OAuthSettings>),
}

impl Provider {
    /// Whether people can sign in with it.
    #[must_use]
    pub fn has_sign_in(&self) -> bool {
        match self {
            Self::Dev(_) | Self::Access(_) => true,
            Self::Oidc(oidc) => oidc.client.is_some(),
            Self::OAuth(oauth) => oauth.owner.is_some(),
            Self::Keys(_) => false,
        }
    }
}

/// The gateway as an authorization server of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthSettings {
    /// From `COUNTERSIGN_SECRET_KEY` and `COUNTERSIGN_SECRET_KEY_OLD`.
    pub keys: SigningKeys,
    /// `ACCESS_TOKEN_MS`: how long an access token is good for.
    pub access_token_ms: u64,
    /// `REFRESH_TOKEN_MS`: how long a client may stay away before the person has to agree anew.
    pub refresh_token_ms: u64,
    /// The one person who signs in with a passphrase, where there is no identity provider.
    pub owner: Option<Owner>,
}

/// The owner of a gateway without an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `OWNER_ACCOUNT`
    pub account: String,
    /// `ORGANIZATION_NAME`
    pub organization: String,
    /// `OWNER_PASSPHRASE_HASH`
    pub passphrase: PassphraseHash,
}

/// Cloudflare Access in front of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSettings {
    /// The team's origin, which is the issuer of its tokens (`ACCESS_TEAM_DOMAIN`).
    pub issuer: String,
    /// `ACCESS_AUDIENCE`: audience tags of the applications that cover the pages and the API.
    pub audiences: Vec<String>,
    /// `ACCESS_MCP_AUDIENCE`: that of an application of its own for `/mcp`; empty where it is the same one.
    pub mcp_audiences: Vec<String>,
}

/// An issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// `OIDC_ISSUER`, as its tokens name it.
    pub issuer: String,
    /// `OIDC_AUDIENCE`: what bearer tokens are for.
    pub audiences: Vec<String>,
    /// `OIDC_ACCOUNT_CLAIM`, `OIDC_ORGANIZATION_CLAIM`, `OIDC_ADMIN_CLAIM`, `OIDC_ADMIN_VALUE`
    pub claims: ClaimNames,
    /// The gateway as a client, for the sign-in of browsers.
    pub client: Option<OidcClient>,
}

/// The gateway as a client of an issuer.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcClient {
    /// `OIDC_CLIENT_ID`, also as an audience.
    pub id: [String; 1],
    /// `OIDC_CLIENT_SECRET`
    pub secret: String,
    /// `OIDC_SCOPES`
    pub scopes: String,
}

impl std::fmt::Debug for OidcClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OidcClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// Hash of `COUNTERSIGN_ADMIN_KEY`, and the organization that it administers.
    pub admin: Option<(AdminKeyHash, String)>,
}

/// Hash of the operator's key.
pub type AdminKeyHash = [u8; 32];

/// A directory of members.
#[derive(Clone, PartialEq, Eq)]
pub struct Directory {
    /// `DIRECTORY_URL`
    pub url: String,
    /// `DIRECTORY_TOKEN`
    pub token: Option<String>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Directory").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Owner {
    /// The owner in a browser.
    #[must_use]
    pub fn person(&self) -> Principal {
        Principal {
            account: self.account.clone(),
            organization: self.organization.clone(),
            admin: true,
            purpose: Purpose::Browser,
        }
    }

    /// What a browser that signed in with this passphrase carries; another one has another name.
    #[must_use]
    pub fn sign_in_name(&self) -> String {
        format!("owner {} {}@{}", self.passphrase.name(), self.account, self.organization)
    }
}

impl AuthSettings {
    /// Development mode, where it is one of the modes.
    #[must_use]
    pub fn dev(&self) -> Option<DevMode> {
        self.providers.iter().find_map(|provider| if let Provider::Dev(dev) = provider { Some(*dev) } else { None })
    }

    /// The issuer of bearer tokens, where there is one.
    #[must_use]
    pub fn oidc(&self) -> Option<&OidcSettings> {
        self.providers.iter().find_map(|one| if let Provider::Oidc(oidc) = one { Some(oidc.as_ref()) } else { None })
    }

    /// Cloudflare Access, where it is there.
    #[must_use]
    pub fn access(&self) -> Option<&AccessSettings> {
        self.providers.iter().find_map(|one| if let Provider::Access(access) = one { Some(access) } else { None })
    }

    /// The authorization server, where the gateway is one.
    #[must_use]
    pub fn oauth(&self) -> Option<&OAuthSettings> {
        self.providers.iter().find_map(|one| if let Provider::OAuth(oauth) = one { Some(oauth.as_ref()) } else { None })
    }

    /// Whether people can sign in in another way than that of development mode.
    #[must_use]
    pub fn has_sign_in(&self) -> bool {
        self.providers.iter().any(|provider| !matches!(provider, Provider::Dev(_)) && provider.has_sign_in())
    }

    /// Whether API keys are taken.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.providers.iter().any(|provider| matches!(provider, Provider::Keys(_)))
    }
}
