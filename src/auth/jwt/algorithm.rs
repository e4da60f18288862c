//! Signature algorithms that are accepted: asymmetric ones that `WebCrypto` has (RFC 7518, section 3.1; RFC 8037; RFC 9864).

/// How a token may be signed. There is no `none` and nothing symmetric, so neither can be chosen by a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// `EdDSA` on Curve25519.
    Ed25519,
}

impl Algorithm {
    /// The value of `alg` in a token's header or in a key.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "ES512" => Self::Es512,
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }

    /// The kind of key that it needs: `kty` and `crv`.
    #[must_use]
    pub fn key_type(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => ("RSA", None),
            Self::Es256 => ("EC", Some("P-256")),
            Self::Es384 => ("EC", Some("P-384")),
            Self::Es512 => ("EC", Some("P-521")),
            Self::Ed25519 => ("OKP", Some("Ed25519")),
        }
    }

    /// The name that `WebCrypto` has for it.
    #[must_use]
    pub fn platform_name(self) -> &'static str {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 => "RSASSA-PKCS1-v1_5",
            Self::Ps256 | Self::Ps384 | Self::Ps512 => "RSA-PSS",
            Self::Es256 | Self::Es384 | Self::Es512 => "ECDSA",
            Self::Ed25519 => "Ed25519",
        }
    }

    /// The hash and its length in bytes; `Ed25519` has its own inside.
    #[must_use]
    pub fn hash(self) -> Option<(&'static str, u32)> {
        match self {
            Self::Rs256 | Self::Ps256 | Self::Es256 => Some(("SHA-256", 32)),
            Self::Rs384 | Self::Ps384 | Self::Es384 => Some(("SHA-384", 48)),
            Self::Rs512 | Self::Ps512 | Self::Es512 => Some(("SHA-512", 64)),
            Self::Ed25519 => None,
        }
    }
}
