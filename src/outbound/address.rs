//! Addresses that are not called: this machine, private networks, and what is reserved.
//!
//! Only what a URL says is judged. A public name that resolves to a private address cannot be told here; the platform's
//! flag `global_fetch_strictly_public` is for that.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Why a URL is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("it is not an absolute URL")]
    NotAUrl,
    /// It is not HTTP.
    #[error("only http and https URLs are called")]
    Scheme,
    /// A user name or password in it would be a credential that nobody confirmed.
    #[error("a URL must not have a user name or password")]
    UserInfo,
    /// The name is one of a local network.
    #[error("{host} is a name of a local network, which is not called unless ALLOW_LOCAL_NETWORK is \"true\"")]
    LocalName {
        /// The name.
        host: String,
    },
    /// The address is not a public one.
    #[error("{host} is {what}, which is not called unless ALLOW_LOCAL_NETWORK is \"true\"")]
    Address {
        /// The address.
        host: String,
        /// What it is for.
        what: &'static str,
    },
}

/// Names at whose end a local network is (RFC 6761, 6762, 8375, 9476, and what routers and clusters use).
const LOCAL_ENDS: [&str; 14] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "svc",
    "alt",
];

/// Why a URL is not called; `None` where it may be. With `allow_local` every host may be.
#[must_use]
pub fn refuse_address(url: &str, allow_local: bool) -> Option<Refusal> {
    let Ok(url) = Url::parse(url) else {
        return Some(Refusal::NotAUrl);
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Some(Refusal::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some(Refusal::UserInfo);
    }
    // The parser has turned decimal, octal, hexadecimal and short forms of IPv4 into addresses, and letters in other
    // scripts into ASCII.
    let host = url.host_str().unwrap_or_default().to_owned();
    let address = |what: Option<&'static str>| what.map(|what| Refusal::Address { host: host.clone(), what });
    match url.host() {
        None => Some(Refusal::NotAUrl),
        Some(_) if allow_local => None,
        Some(Host::Domain(name)) => is_local_name(name).then(|| Refusal::LocalName { host: host.clone() }),
        Some(Host::Ipv4(ip)) => address(reserved_v4(ip)),
        Some(Host::Ipv6(ip)) => address(reserved_v6(ip)),
    }
}

fn is_local_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // One final dot says that the name is complete; it is still the same name.
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_below = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !name.contains('.') || name.split('.').any(str::is_empty) || LOCAL_ENDS.iter().any(|end| is_below(end))
}

/// IANA's registry of special-purpose IPv4 addresses, and one that a cloud uses for itself.
fn reserved_v4(ip: Ipv4Addr) -> Option<&'static str> {
    match ip.octets() {
        [0, ..] => Some("an address of this machine"),
        [127, ..] => Some("a loopback address"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("an address of a private network"),
        [100, 64..=127, ..] => Some("an address of a provider's inner network"),
        [169, 254, ..] => Some("a link-local address"),
        [168, 63, 129, 16] => Some("a metadata address"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => Some("a reserved address"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("an address for documentation"),
        [224..=239, ..] => Some("a multicast address"),
        _ => None,
    }
}

/// Only global unicast is public (`2000::/3`), without the parts that IANA's registry keeps for other ends. Addresses that
/// carry an IPv4 address in them (mapped, NAT64, 6to4, Teredo) are refused whatever that is.
fn reserved_v6(ip: Ipv6Addr) -> Option<&'static str> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some("an address of this machine"),
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, ..] | [0x2002, ..] | [0x2001, 0, ..] => {
            Some("an IPv4 address in IPv6")
        }
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some("an address of a private network"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("an address for documentation"),
        [0x2001, 1..=0x1ff, ..] | [0x3ffe, ..] => Some("a reserved address"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn local_and_reserved_addresses_are_refused_in_every_spelling() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "a.localhost.",
            "localhost.localdomain",
            "printer.local",
            "metadata.google.internal",
            "metadata.google.internal.",
            "host.docker.internal",
            "nas.home.arpa",
            "router.lan",
            "kubernetes.default.svc",
            "api.default.svc.cluster.local",
            "intranet",
            "metadata",
            "instance-data",
            "x.corp",
            "1.0.0.127.in-addr.arpa",
            "a..example",
            "example.com..",
            // Letters that become ASCII.
            "ⓛocalhost",
            "ｌocalhost",
            "127。0。0。1",
            // A name in another script is written in its ASCII form.
            "bücher.example",
            "１２７.0.0.1",
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.1",
            "0x7f.0.0.0x1",
            "127.255.255.254",
            "0",
            "0.0.0.0",
            "0.1.2.3",
            "00.0.0.0",
            "%31%32%37.0.0.1",
            "10.0.0.1",
            "10.255.255.255",
            "012.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "0xc0a80001",
            "100.64.0.1",
            "100.127.255.255",
            "100.100.100.200",
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "168.63.129.16",
            "192.0.0.192",
            "192.0.2.1",
            "198.51.100.7",
            "203.0.113.9",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "[::]",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::ffff:8.8.8.8]",
            "[::127.0.0.1]",
            "[::ffff:0:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[64:ff9b::8.8.8.8]",
            "[64:ff9b:1::1]",
            "[2002:7f00:1::]",
            "[2001::1]",
            "[2001:0:7f00:1::]",
            "[2001:db8::1]",
            "[2001:2::1]",
            "[2001:10::1]",
            "[2001:20::1]",
            "[3fff::1]",
            "[3ffe::1]",
            "[fc00::1]",
            "[fd12:3456::1]",
            "[fe80::1]",
            "[febf::1]",
            "[fec0::1]",
            "[feff::1]",
            "[ff02::1]",
            "[100::1]",
            "[5f00::1]",
            "[4000::1]",
            "[fd00:ec2::254]",
        ] {
            for url in [format!("http://{host}/"), format!("https://{host}:8443/a?b"), format!("http://{host}")] {
                let refusal = refuse_address(&url, false);
                assert!(
                    matches!(refusal, Some(Refusal::Address { .. } | Refusal::LocalName { .. } | Refusal::NotAUrl)),
                    "{url}: {refusal:?}"
                );
            }
        }
    }

    #[test]
    fn public_addresses_are_called() {
        for host in [
            "api.example.com",
            "API.example.com",
            "example.com.",
            "xn--bcher-kva.example",
            "a.b.c.d.e.f.g",
            "notlocalhost.com",
            "localhost.com",
            "mylocal.dev",
            "internal.example.com",
            "local.example",
            "lan.example",
            "127.0.0.1.example",
            "8.8.8.8",
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "169.255.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.0.1",
            "192.169.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "168.63.129.17",
            "134744072",
            "[2606:4700:4700::1111]",
            "[2001:4860:4860::8888]",
            "[2a00:1450::1]",
            "[2001:200::1]",
            "[2003::1]",
            "[3fff:1000::1]",
        ] {
            assert_eq!(refuse_address(&format!("https://{host}/a"), false), None, "{host}");
        }
    }

    #[test]
    fn only_http_without_a_user_name_is_called_whatever_is_allowed() {
        for allow_local in [false, true] {
            for (url, refusal) in [
                ("ftp://example.com/", Refusal::Scheme),
                ("file:///etc/passwd", Refusal::Scheme),
                ("data:text/plain,x", Refusal::Scheme),
                ("javascript:alert(1)", Refusal::Scheme),
                ("ws://example.com/", Refusal::Scheme),
                ("blob:https://example.com/x", Refusal::Scheme),
                ("https://user@example.com/", Refusal::UserInfo),
                ("https://user:pass@example.com/", Refusal::UserInfo),
                ("https://:pass@example.com/", Refusal::UserInfo),
                ("https://example.com@127.0.0.1/", Refusal::UserInfo),
                ("//example.com/", Refusal::NotAUrl),
                ("/path", Refusal::NotAUrl),
                ("https://", Refusal::NotAUrl),
                ("https://[fe80::1%25eth0]/", Refusal::NotAUrl),
                ("https://1.2.3.4.5.6:port/", Refusal::NotAUrl),
                ("", Refusal::NotAUrl),
            ] {
                assert_eq!(refuse_address(url, allow_local), Some(refusal), "{url}");
            }
            assert_eq!(refuse_address("http://127.0.0.1:8080/", true), None);
            assert_eq!(refuse_address("http://localhost/", true), None);
            assert_eq!(refuse_address("http://[::1]/", true), None);
        }
    }

    #[test]
    fn what_a_url_parser_reads_differently_counts_as_it_is_sent() {
        // A backslash is a slash, tabs and line breaks are nothing, and more slashes are two.
        for url in [
            "https:\\\\127.0.0.1\\",
            "https:/127.0.0.1/",
            "https:127.0.0.1",
            "ht\ntps://127.0.\t0.1/",
            " https://127.0.0.1/ ",
        ] {
            assert!(matches!(refuse_address(url, false), Some(Refusal::Address { .. })), "{url:?}");
        }
    }
}
