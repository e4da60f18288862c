use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

const SECRET: &str = "s3cr3t/+ k€y\"&\\<tok'en>";

fn redacted(text: &str) -> String {
    Redactor::new([SECRET]).text(text).into_owned()
}

#[test]
fn a_secret_is_taken_out_in_every_form() {
    let json = serde_json::to_string(SECRET).unwrap();
    let twice = serde_json::to_string(&json).unwrap();
    let percent: String = SECRET
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let form: String = url::form_urlencoded::byte_serialize(SECRET.as_bytes()).collect();
    let hex = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    for echoed in [
        SECRET.to_owned(),
        format!("x={SECRET};"),
        json.clone(),
        json.replace('/', "\\/"),
        json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e").replace('\'', "\\u0027"),
        json.replace('€', "\\u20ac"),
        twice,
        percent.clone(),
        percent.to_ascii_lowercase(),
        form.clone(),
        form.to_ascii_lowercase(),
        hex.clone(),
        hex.to_uppercase(),
        SECRET
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;"),
    ] {
        let text = format!("before {echoed} after");
        let written = redacted(&text);
        assert!(written.starts_with("before ") && written.ends_with(" after"), "{written}");
        assert!(written.contains(REDACTED), "{text}");
        for part in ["s3cr3t", "tok", "733363", "en%3"] {
            assert!(!written.contains(part), "{text}\n{written}");
        }
    }
}

#[test]
fn a_secret_within_base64_is_taken_out_wherever_it_begins() {
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let redactor = Redactor::new([secret]);
    for before in ["", "u", "us", "use", "user", "user:", "a longer one: "] {
        for after in ["", "x", "xy", "xyz", "?!>~"] {
            let plain = format!("{before}{secret}{after}");
            for encoded in [
                STANDARD.encode(&plain),
                STANDARD_NO_PAD.encode(&plain),
                URL_SAFE.encode(&plain),
                URL_SAFE_NO_PAD.encode(&plain),
            ] {
                for text in [
                    encoded.clone(),
                    format!(r#"{{"auth":"Basic {encoded}"}}"#),
                    encoded.replace('/', "\\/"),
                    encoded.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"),
                ] {
                    let written = redactor.text(&text);
                    assert!(written.contains(REDACTED), "{plain}: {text}");
                    // Nothing is left that decodes to more than a byte of the secret.
                    for start in 0..secret.len() - 3 {
                        let part = &secret[start..start + 3];
                        let offsets = ["", "a", "ab"].map(|pad| STANDARD.encode(format!("{pad}{part}")));
                        let common = [&offsets[0][..4], &offsets[1][2..5], &offsets[2][3..6]];
                        assert!(!written.contains(common[0]), "{plain}: {written}");
                    }
                }
            }
        }
    }
}

#[test]
fn short_secrets_count_only_where_they_stand_alone() {
    let redactor = Redactor::new(["pass", "abc"]);
    for (text, expected) in [
        ("passenger compass pass", "passenger compass [redacted]"),
        (r#"{"password":"pass"}"#, r#"{"password":"[redacted]"}"#),
        ("abc", "abc"),
        ("x=pass&y", "x=[redacted]&y"),
        ("", ""),
        ("p", "p"),
    ] {
        assert_eq!(redactor.text(text), expected);
    }
    // In the header's value they are part of something long.
    let basic = STANDARD.encode("me:abc");
    assert_eq!(Redactor::new(["abc", basic.as_str()]).text(&format!("Basic {basic}")), "Basic [redacted]");
}

#[test]
fn several_secrets_and_neighbours_are_all_taken_out() {
    let redactor = Redactor::new(["first-secret", "second-secret-longer", "second-secret"]);
    assert_eq!(redactor.text("first-secretsecond-secret-longerfirst-secret"), "[redacted][redacted][redacted]");
    assert_eq!(redactor.text("second-secret first-secre"), "[redacted] first-secre");
    assert!(Redactor::new([""; 0]).is_empty());
    assert!(matches!(Redactor::default().text("x"), Cow::Borrowed("x")));
}

#[test]
fn bytes_that_are_not_text_are_searched_too() {
    let redactor = Redactor::new(["secret-in-a-zip"]);
    let body = [&[0xff, 0xfe, 0][..], b"secret-in-a-zip", &[0xff]].concat();
    assert_eq!(redactor.body(body), [&[0xff, 0xfe, 0][..], b"[redacted]", &[0xff]].concat());
}

#[test]
fn sixteen_mebibytes_are_searched_in_time() {
    let redactor = Redactor::new([SECRET, "ghp_16C7e42F292c6912E7710c838347Ae178B4a"]);
    let mut body =
        br#"{"id":12345,"name":"a thing","url":"https://api.example/v1/things/12345"},"#.repeat((16 << 20) / 74);
    body.extend_from_slice(SECRET.as_bytes());
    #[allow(clippy::disallowed_methods, reason = "the test measures")]
    let started = std::time::Instant::now();
    let written = redactor.body(body);
    // Unoptimised; the release build takes a fiftieth of it.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    assert!(written.ends_with(REDACTED.as_bytes()));
}

proptest! {
    #[test]
    fn nothing_is_left_and_all_else_stays(
        secret in "[!-~]{8,40}", before in "[ -~]{0,40}", after in "[ -~]{0,40}", filler in "[ -~]{0,300}",
    ) {
        let redactor = Redactor::new([secret.as_str()]);
        let text = format!("{before}{secret}{after}");
        let written = redactor.text(&text);
        prop_assert!(!written.contains(&secret), "{written}");
        prop_assert!(written.contains(REDACTED));
        if !filler.contains(&secret) {
            // Text without any form of it is not touched; a chance hit of one that is encoded is next to impossible.
            prop_assert_eq!(redactor.text(&filler), filler.as_str());
        }
        let mut naive = text.replace(&secret, REDACTED);
        // A backslash beside the secret may be part of how it is written in JSON (`\\/`, `\\\\`).
        if !before.ends_with('\\') && !after.starts_with('\\') && !before.contains(&secret[..1]) && !after.contains(&secret[..1]) && secret.matches(&secret[..1]).count() == 1 {
            prop_assert_eq!(redactor.text(&text), std::mem::take(&mut naive));
        }
    }
}
