use serde_json::json;

use super::*;

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn token(header: &Value, claims: &Value) -> String {
    format!("{}.{}.{}", part(header), part(claims), URL_SAFE_NO_PAD.encode([1, 2, 3]))
}

#[test]
fn a_token_is_taken_apart() {
    let text = token(&json!({ "alg": "ES256", "kid": "k1", "typ": "at+JWT" }), &json!({ "sub": "ann" }));
    let jwt = parse_jwt(&text).unwrap();
    assert_eq!((jwt.algorithm, jwt.kid.as_deref()), (Algorithm::Es256, Some("k1")));
    assert_eq!(jwt.signature, [1, 2, 3]);
    assert_eq!(jwt.claims["sub"], "ann");
    assert!(text.starts_with(jwt.signed));
}

#[test]
fn what_is_no_acceptable_token_is_refused_before_any_key_is_asked_for() {
    let claims = json!({ "sub": "ann" });
    for (header, expected) in [
        (json!({ "alg": "none" }), JwtError::Algorithm),
        (json!({ "alg": "None" }), JwtError::Algorithm),
        (json!({ "alg": "HS256" }), JwtError::Algorithm),
        (json!({ "alg": "HS512", "kid": "k" }), JwtError::Algorithm),
        (json!({ "alg": "rs256" }), JwtError::Algorithm),
        (json!({ "alg": "ES256K" }), JwtError::Algorithm),
        (json!({ "alg": "Ed448" }), JwtError::Algorithm),
        (json!({}), JwtError::Algorithm),
        (json!({ "alg": ["RS256"] }), JwtError::Malformed),
        (json!({ "alg": "RS256", "kid": 1 }), JwtError::Malformed),
        (json!({ "alg": "RS256", "kid": "k".repeat(257) }), JwtError::Malformed),
        (json!({ "alg": "RS256", "crit": ["b64"], "b64": false }), JwtError::Critical),
        (json!({ "alg": "RS256", "crit": [] }), JwtError::Critical),
        (json!({ "alg": "RS256", "typ": "logout+jwt" }), JwtError::Type),
        (json!({ "alg": "RS256", "typ": "dpop+jwt" }), JwtError::Type),
        (json!({ "alg": "RS256", "pad": "x".repeat(3_000) }), JwtError::Malformed),
        (json!(["RS256"]), JwtError::Malformed),
    ] {
        assert_eq!(parse_jwt(&token(&header, &claims)), Err(expected), "{header}");
    }
    let header = part(&json!({ "alg": "RS256" }));
    for (text, expected) in [
        (String::new(), JwtError::Malformed),
        ("..".to_owned(), JwtError::Malformed),
        ("a.b".to_owned(), JwtError::Malformed),
        (format!("{header}.e30."), JwtError::Signature),
        (format!("{header}.e30.A"), JwtError::Malformed),
        (format!("{header}.e30=.AQID"), JwtError::Malformed),
        (format!("{header}.e30.AQID.AQID"), JwtError::Malformed),
        (format!("{header}.e30.AQ+D"), JwtError::Malformed),
        (format!("{header}. e30.AQID"), JwtError::Malformed),
        (format!("{header}.{}.AQID", URL_SAFE_NO_PAD.encode("[1]")), JwtError::Malformed),
        (format!("{header}.{}.AQID", URL_SAFE_NO_PAD.encode([0xff, 0xfe])), JwtError::Malformed),
        (
            format!("{header}.{}.AQID", URL_SAFE_NO_PAD.encode(format!("{{\"a\":{}", "[".repeat(1_000)))),
            JwtError::Malformed,
        ),
        (format!("{header}.{}.AQID", "A".repeat(TOKEN_BYTES)), JwtError::TooLong),
    ] {
        assert_eq!(parse_jwt(&text), Err(expected), "{}", text.chars().take(60).collect::<String>());
    }
}

#[test]
fn every_text_fits_into_a_header() {
    for error in [
        JwtError::TooLong,
        JwtError::Malformed,
        JwtError::Algorithm,
        JwtError::Critical,
        JwtError::Type,
        JwtError::UnknownKey,
        JwtError::Signature,
        JwtError::Issuer,
        JwtError::Audience,
        JwtError::NoExpiry,
        JwtError::Expired,
        JwtError::NotYet,
        JwtError::Nonce,
    ] {
        assert!(error.text().bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'));
    }
}

const NOW: u64 = 1_800_000_000_000;

#[test]
fn claims_of_another_issuer_audience_or_time_do_not_count() {
    let audiences = ["https://gw.example/mcp".to_owned(), "gateway".to_owned()];
    let expected = Expected { issuer: "https://id.example", audiences: &audiences };
    let now = NOW / 1_000;
    let good = json!({ "iss": "https://id.example", "aud": "gateway", "exp": now + 60, "nbf": now, "iat": now });
    let with = |changes: Value| {
        let mut claims = good.as_object().cloned().unwrap();
        for (name, value) in changes.as_object().cloned().unwrap() {
            if value.is_null() {
                claims.remove(&name)
            } else {
                claims.insert(name, value)
            };
        }
        check_claims(&claims, expected, NOW)
    };
    assert_eq!(with(json!({})), Ok((now + 60 + LEEWAY_S) * 1_000));
    for changes in [
        json!({ "aud": ["other", "https://gw.example/mcp"] }),
        json!({ "exp": now - LEEWAY_S + 1 }),
        json!({ "nbf": now + LEEWAY_S, "iat": now + LEEWAY_S }),
        json!({ "nbf": null, "iat": null }),
        json!({ "exp": 1_800_000_001.5 }),
        json!({ "exp": 1e300 }),
    ] {
        assert!(with(changes.clone()).is_ok(), "{changes}");
    }
    for (changes, error) in [
        (json!({ "iss": "https://id.example/" }), JwtError::Issuer),
        (json!({ "iss": null }), JwtError::Issuer),
        (json!({ "iss": ["https://id.example"] }), JwtError::Issuer),
        (json!({ "aud": "gateway " }), JwtError::Audience),
        (json!({ "aud": [] }), JwtError::Audience),
        (json!({ "aud": [["gateway"]] }), JwtError::Audience),
        (json!({ "aud": null }), JwtError::Audience),
        (json!({ "exp": null }), JwtError::NoExpiry),
        (json!({ "exp": now - LEEWAY_S }), JwtError::Expired),
        (json!({ "exp": 0 }), JwtError::Expired),
        (json!({ "exp": (now + 60).to_string() }), JwtError::Malformed),
        (json!({ "exp": -1 }), JwtError::Malformed),
        (json!({ "nbf": now + LEEWAY_S + 1 }), JwtError::NotYet),
        (json!({ "iat": now + LEEWAY_S + 1 }), JwtError::NotYet),
        (json!({ "nbf": "soon" }), JwtError::Malformed),
    ] {
        assert_eq!(with(changes.clone()), Err(error), "{changes}");
    }
}

fn rsa(changes: &Value) -> Value {
    let mut key = json!({ "kty": "RSA", "kid": "r", "n": "A".repeat(342), "e": "AQAB" });
    for (name, value) in changes.as_object().unwrap() {
        key[name] = value.clone();
    }
    key
}

fn candidates(keys: &Value, header: &Value) -> Vec<usize> {
    let set = JwkSet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap_or_default();
    let text = token(header, &json!({}));
    set.candidates(&parse_jwt(&text).unwrap()).into_iter().map(|(number, _)| number).collect()
}

#[test]
fn a_key_verifies_only_what_it_is_for() {
    let header = json!({ "alg": "RS256", "kid": "r" });
    for changes in [
        json!({}),
        json!({ "use": "sig" }),
        json!({ "key_ops": ["verify"] }),
        json!({ "alg": "RS256" }),
        // What else a document says, a private part included, is left out.
        json!({ "d": "AAAA", "x5c": ["x"] }),
    ] {
        assert_eq!(candidates(&json!([rsa(&changes)]), &header), [0], "{changes}");
    }
    for changes in [
        json!({ "use": "enc" }),
        json!({ "use": 1 }),
        json!({ "key_ops": ["sign"] }),
        json!({ "key_ops": "verify" }),
        json!({ "alg": "RS512" }),
        json!({ "alg": "HS256" }),
        json!({ "alg": "RSA-OAEP" }),
        json!({ "kid": "other" }),
        json!({ "kty": "oct", "k": "AAAA" }),
        json!({ "kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA" }),
        json!({ "n": "AQAB" }),
        json!({ "n": "A".repeat(2_000) }),
        json!({ "e": "A".repeat(40) }),
        json!({ "n": "not base64url!".repeat(30) }),
    ] {
        assert!(candidates(&json!([rsa(&changes)]), &header).is_empty(), "{changes}");
    }
}

#[test]
fn the_type_of_the_key_decides_what_a_token_may_be_signed_with() {
    let keys = json!([
        rsa(&json!({ "kid": "k" })),
        { "kty": "EC", "crv": "P-256", "kid": "k", "x": "AAAA", "y": "AAAA" },
        { "kty": "EC", "crv": "P-521", "kid": "k", "x": "AAAA", "y": "AAAA" },
        { "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "AAAA" },
        { "kty": "OKP", "crv": "X25519", "kid": "k", "x": "AAAA" },
    ]);
    for (algorithm, expected) in [
        ("RS256", vec![0]),
        ("PS512", vec![0]),
        ("ES256", vec![1]),
        ("ES384", vec![]),
        ("ES512", vec![2]),
        ("EdDSA", vec![3]),
        ("Ed25519", vec![3]),
    ] {
        assert_eq!(candidates(&keys, &json!({ "alg": algorithm, "kid": "k" })), expected, "{algorithm}");
        assert_eq!(candidates(&keys, &json!({ "alg": algorithm })), expected, "{algorithm} without a key id");
    }
}

#[test]
fn without_a_key_id_only_a_few_keys_are_tried() {
    let keys: Vec<Value> = (0..20).map(|number| rsa(&json!({ "kid": number.to_string() }))).collect();
    assert_eq!(candidates(&json!(keys), &json!({ "alg": "RS256" })).len(), CANDIDATES);
    assert_eq!(candidates(&json!(keys), &json!({ "alg": "RS256", "kid": "19" })), [19]);
}

#[test]
fn what_is_no_key_set_has_no_keys() {
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[]}"#, r#"{"keys":[1,null,{"kty":"oct"}]}"#, "<html>"] {
        assert_eq!(JwkSet::parse(text.as_bytes()), None, "{text}");
    }
}
