use serde_json::{Value, json};

use super::{body_text, document, header, http, import, request, tool_with};
use crate::catalog::openapi::request::{HttpRequest, RequestError, build_request};
use crate::catalog::schema::check_arguments;
use crate::catalog::tool::Tool;

fn tool_of_parameter(path: &str, parameter: &Value) -> Tool {
    let paths = json!({ path: { "get": { "operationId": "get", "parameters": [parameter] } } });
    import(&document(&paths, &json!({}))).tools.into_iter().next().unwrap()
}

/// What comes after the base URL.
fn target(request: &HttpRequest) -> &str {
    request.url.strip_prefix("https://api.example.com/v1").unwrap()
}

#[test]
fn styles_are_written_as_the_table_of_the_specification_says() {
    let values = [json!(""), json!("blue"), json!(["blue", "black", "brown"]), json!({ "R": 100, "G": 200, "B": 150 })];
    // OpenAPI 3.1.1, "Style Examples". `None`: not possible in a path, where the segment would be empty or dots.
    let rows: [(&str, &str, bool, [Option<&str>; 4]); 10] = [
        (
            "path",
            "matrix",
            false,
            [
                Some("/;color"),
                Some("/;color=blue"),
                Some("/;color=blue,black,brown"),
                Some("/;color=R,100,G,200,B,150"),
            ],
        ),
        (
            "path",
            "matrix",
            true,
            [
                Some("/;color"),
                Some("/;color=blue"),
                Some("/;color=blue;color=black;color=brown"),
                Some("/;R=100;G=200;B=150"),
            ],
        ),
        ("path", "label", false, [None, Some("/.blue"), Some("/.blue,black,brown"), Some("/.R,100,G,200,B,150")]),
        ("path", "label", true, [None, Some("/.blue"), Some("/.blue.black.brown"), Some("/.R=100.G=200.B=150")]),
        ("path", "simple", false, [None, Some("/blue"), Some("/blue,black,brown"), Some("/R,100,G,200,B,150")]),
        ("path", "simple", true, [None, Some("/blue"), Some("/blue,black,brown"), Some("/R=100,G=200,B=150")]),
        (
            "query",
            "form",
            false,
            [
                Some("/?color="),
                Some("/?color=blue"),
                Some("/?color=blue,black,brown"),
                Some("/?color=R,100,G,200,B,150"),
            ],
        ),
        (
            "query",
            "form",
            true,
            [
                Some("/?color="),
                Some("/?color=blue"),
                Some("/?color=blue&color=black&color=brown"),
                Some("/?R=100&G=200&B=150"),
            ],
        ),
        (
            "query",
            "spaceDelimited",
            false,
            [
                Some("/?color="),
                Some("/?color=blue"),
                Some("/?color=blue%20black%20brown"),
                Some("/?color=R%20100%20G%20200%20B%20150"),
            ],
        ),
        (
            "query",
            "pipeDelimited",
            false,
            [
                Some("/?color="),
                Some("/?color=blue"),
                Some("/?color=blue%7Cblack%7Cbrown"),
                Some("/?color=R%7C100%7CG%7C200%7CB%7C150"),
            ],
        ),
    ];
    for (place, style, explode, expected) in rows {
        let path = if place == "path" { "/{color}" } else { "/" };
        let parameter =
            json!({ "name": "color", "in": place, "required": true, "style": style, "explode": explode, "schema": {} });
        let tool = tool_of_parameter(path, &parameter);
        for (value, expected) in values.iter().zip(expected) {
            let request = request(&tool, &json!({ "color": value }));
            let written = request.as_ref().ok().map(target);
            assert_eq!(written, expected, "{style} explode={explode} {value}");
        }
    }
    let deep = json!({ "name": "color", "in": "query", "style": "deepObject", "explode": true, "schema": {} });
    let request =
        request(&tool_of_parameter("/", &deep), &json!({ "color": { "R": 100, "G": 200, "B": 150 } })).unwrap();
    assert_eq!(target(&request), "/?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150");
}

#[test]
fn headers_are_written_in_simple_style_without_percent_encoding() {
    for (explode, value, expected) in [
        (false, json!("a b/ü".replace('ü', "u")), "a b/u"),
        (false, json!([1, 2, 3]), "1,2,3"),
        (false, json!({ "R": 100, "G": 200 }), "R,100,G,200"),
        (true, json!({ "R": 100, "G": 200 }), "R=100,G=200"),
    ] {
        let tool =
            tool_of_parameter("/", &json!({ "name": "X-Color", "in": "header", "explode": explode, "schema": {} }));
        let request = request(&tool, &json!({ "X-Color": value })).unwrap();
        assert_eq!(header(&request, "x-color"), Some(expected));
    }
}

#[test]
fn header_values_that_would_start_another_line_are_refused() {
    let tool = tool_of_parameter("/", &json!({ "name": "X-Color", "in": "header", "schema": { "type": "string" } }));
    for bad in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "grün"] {
        let error = request(&tool, &json!({ "X-Color": bad })).unwrap_err();
        assert!(matches!(&error, RequestError::Unwritable { key, .. } if key == "X-Color"), "{bad:?}: {error}");
    }
}

#[test]
fn cookies_are_joined_and_encoded() {
    let paths = json!({ "/": { "get": { "parameters": [
        { "name": "a", "in": "cookie", "schema": {} },
        { "name": "b", "in": "cookie", "explode": false, "schema": {} },
        { "name": "c", "in": "cookie", "style": "cookie", "schema": {} },
    ] } } });
    let tool = &import(&document(&paths, &json!({}))).tools[0];
    let written = request(tool, &json!({ "a": "x; y", "b": [1, 2], "c": "p%20q" })).unwrap();
    assert_eq!(header(&written, "cookie"), Some("a=x%3B%20y; b=1,2; c=p%20q"));
    assert!(request(tool, &json!({ "c": "x; evil=1" })).is_err());
}

#[test]
fn path_values_are_one_encoded_segment() {
    let tool = tool_of_parameter(
        "/files/{name}/raw",
        &json!({ "name": "name", "in": "path", "required": true, "schema": {} }),
    );
    for (value, expected) in [
        (json!("a/b"), "/files/a%2Fb/raw"),
        (json!("../../admin"), "/files/..%2F..%2Fadmin/raw"),
        (json!("..a"), "/files/..a/raw"),
        (json!("ü ?#%&+"), "/files/%C3%BC%20%3F%23%25%26%2B/raw"),
        (json!("%2e%2e"), "/files/%252e%252e/raw"),
        (json!("a\\b"), "/files/a%5Cb/raw"),
        (json!("日本"), "/files/%E6%97%A5%E6%9C%AC/raw"),
        (json!(true), "/files/true/raw"),
        (serde_json::from_str("12345678901234567890.10").unwrap(), "/files/12345678901234567890.10/raw"),
    ] {
        let request = request(&tool, &json!({ "name": value })).unwrap();
        assert_eq!(target(&request), expected);
    }
}

#[test]
fn path_values_that_change_the_path_are_refused() {
    let one = tool_of_parameter(
        "/files/{name}/raw",
        &json!({ "name": "name", "in": "path", "required": true, "schema": {} }),
    );
    for bad in [json!(".."), json!("."), json!(""), json!(null), json!([])] {
        assert!(request(&one, &json!({ "name": bad })).is_err(), "{bad}");
    }
    assert_eq!(request(&one, &json!({})), Err(RequestError::Missing { key: "name".into() }));
    let paths = json!({ "/x/{a}{b}/y": { "get": { "parameters": [
        { "name": "a", "in": "path", "required": true, "schema": {} },
        { "name": "b", "in": "path", "required": true, "schema": {} },
    ] } } });
    let two = &import(&document(&paths, &json!({}))).tools[0];
    assert!(request(two, &json!({ "a": ".", "b": "." })).is_err());
    let reserved = json!({ "name": "name", "in": "path", "required": true, "allowReserved": true, "schema": {} });
    let open = tool_of_parameter("/files/{name}", &reserved);
    assert_eq!(target(&request(&open, &json!({ "name": "a/b c" })).unwrap()), "/files/a/b%20c");
    for bad in ["a/../b", "a/%2e%2E/b", "a/%2e/b", ".."] {
        assert!(request(&open, &json!({ "name": bad })).is_err(), "{bad}");
    }
}

#[test]
fn query_values_are_encoded_unless_reserved_characters_may_stay() {
    for (reserved, value, expected) in [
        (false, "a&b=c d/ü+%41", "/?q=a%26b%3Dc%20d%2F%C3%BC%2B%2541"),
        (true, "a&b=c d/ü+%41#[x]", "/?q=a%26b=c%20d/%C3%BC%2B%41%23%5Bx%5D"),
    ] {
        let tool =
            tool_of_parameter("/", &json!({ "name": "q", "in": "query", "allowReserved": reserved, "schema": {} }));
        assert_eq!(target(&request(&tool, &json!({ "q": value })).unwrap()), expected);
    }
}

#[test]
fn parameters_that_are_null_or_empty_lists_are_left_out() {
    let tool = tool_of_parameter("/", &json!({ "name": "q", "in": "query", "schema": {} }));
    for value in [json!(null), json!([]), json!({}), json!([null])] {
        assert_eq!(target(&request(&tool, &json!({ "q": value })).unwrap()), "/");
    }
    assert_eq!(target(&request(&tool, &json!({ "q": [1, null, 2] })).unwrap()), "/?q=1&q=2");
}

#[test]
fn a_parameter_with_content_is_written_in_its_media_type() {
    let parameter = json!({ "name": "filter", "in": "query", "content": { "application/json": { "schema": { "type": "object" } } } });
    let tool = tool_of_parameter("/", &parameter);
    assert_eq!(tool.input_schema["properties"]["filter"]["type"], "object");
    let request = request(&tool, &json!({ "filter": { "a": [1, "x y"] } })).unwrap();
    assert_eq!(target(&request), "/?filter=%7B%22a%22%3A%5B1%2C%22x%20y%22%5D%7D");
}

#[test]
fn a_whole_query_string_is_written_from_one_argument() {
    let form = json!({ "name": "q", "in": "querystring", "content": { "application/x-www-form-urlencoded": { "schema": { "type": "object" } } } });
    let tool = tool_of_parameter("/", &form);
    assert_eq!(target(&request(&tool, &json!({ "q": { "a": 1, "b c": "d&" } })).unwrap()), "/?a=1&b%20c=d%26");
    let whole = json!({ "name": "q", "in": "querystring", "content": { "application/json": { "schema": {} } } });
    assert_eq!(
        target(&request(&tool_of_parameter("/", &whole), &json!({ "q": { "a": 1 } })).unwrap()),
        "/?%7B%22a%22%3A1%7D"
    );
}

#[test]
fn odd_names_are_sent_as_they_are() {
    let paths = json!({ "/t/{thing id}": { "get": { "parameters": [
        { "name": "thing id", "in": "path", "required": true, "schema": {} },
        { "name": "filter[status]", "in": "query", "schema": {} },
        { "name": "$top", "in": "query", "schema": {} },
        { "name": "größe", "in": "query", "schema": {} },
    ] } } });
    let tool = &import(&document(&paths, &json!({}))).tools[0];
    let keys: Vec<&str> = tool.input_schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["thing_id", "filter_status", "top", "gr_e"]);
    let arguments = json!({ "thing_id": 1, "filter_status": "open", "top": 5, "gr_e": "x" });
    let request = request(tool, &arguments).unwrap();
    assert_eq!(target(&request), "/t/1?filter%5Bstatus%5D=open&%24top=5&gr%C3%B6%C3%9Fe=x");
}

#[test]
fn names_that_clash_stay_separately_settable() {
    let operation = json!({
        "parameters": [
            { "name": "id", "in": "query", "schema": { "type": "string" } },
            { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "id", "in": "header", "schema": { "type": "string" } },
            { "name": "id", "in": "cookie", "schema": { "type": "string" } },
        ],
        "requestBody": { "required": true, "content": { "application/json": { "schema": {
            "type": "object", "required": ["id"], "properties": { "id": { "type": "integer" }, "body_id": { "type": "integer" } }
        } } } },
    });
    let import = import(&document(&json!({ "/things/{id}": { "put": operation } }), &json!({})));
    let tool = &import.tools[0];
    let keys: Vec<&str> = tool.input_schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["id", "query_id", "header_id", "cookie_id", "body_id", "body_body_id"]);
    assert_eq!(tool.input_schema["required"], json!(["id", "body_id"]));
    let arguments =
        json!({ "id": "p", "query_id": "q", "header_id": "h", "cookie_id": "c", "body_id": 1, "body_body_id": 2 });
    let request = request(tool, &check_arguments(&tool.input_schema, arguments).unwrap()).unwrap();
    assert_eq!(target(&request), "/things/p?id=q");
    assert_eq!((header(&request, "id"), header(&request, "cookie")), (Some("h"), Some("id=c")));
    assert_eq!(body_text(&request), r#"{"id":1,"body_id":2}"#);
}

#[test]
fn urls_are_joined_with_one_slash() {
    let tool = tool_of_parameter("/pets", &json!({ "name": "q", "in": "query", "schema": {} }));
    for (base, expected) in [
        ("https://a.example", "https://a.example/pets"),
        ("https://a.example/", "https://a.example/pets"),
        ("https://a.example/v1", "https://a.example/v1/pets"),
        ("https://a.example/v1//", "https://a.example/v1/pets"),
        ("http://localhost:8787/x?y=1#z", "http://localhost:8787/x/pets"),
    ] {
        assert_eq!(build_request(http(&tool), Some(base), &json!({})).unwrap().url, expected);
    }
    assert_eq!(build_request(http(&tool), None, &json!({})), Err(RequestError::NoBaseUrl));
    for bad in ["/v1", "ftp://a.example", "https://user:secret@a.example", "not a url"] {
        assert!(matches!(build_request(http(&tool), Some(bad), &json!({})), Err(RequestError::BadUrl { .. })), "{bad}");
    }
}

#[test]
fn fixed_queries_and_fragments_of_a_path_are_kept_apart() {
    let paths = json!({ "/do?action=list#variant": { "get": { "parameters": [{ "name": "q", "in": "query", "schema": {} }] } } });
    let tool = &import(&document(&paths, &json!({}))).tools[0];
    assert_eq!(target(&request(tool, &json!({ "q": 1 })).unwrap()), "/do?action=list&q=1");
}

fn body_operation(media_type: &str, media: &Value) -> Value {
    json!({ "requestBody": { "required": true, "content": { media_type: media } } })
}

#[test]
fn json_bodies_keep_digits_nulls_and_order() {
    for media_type in ["application/json", "application/vnd.api+json", "application/json; charset=utf-8"] {
        let schema =
            json!({ "type": "object", "properties": { "z": {}, "a": {}, "n": { "type": ["string", "null"] } } });
        let tool = tool_with(body_operation(media_type, &json!({ "schema": schema })), &json!({}));
        let arguments = serde_json::from_str(r#"{"a":12345678901234567890,"z":1.10,"n":null}"#).unwrap();
        let request = request(&tool, &arguments).unwrap();
        assert_eq!(header(&request, "content-type"), Some(media_type));
        assert_eq!(body_text(&request), r#"{"z":1.10,"a":12345678901234567890,"n":null}"#);
    }
}

#[test]
fn bodies_that_are_not_plain_objects_are_one_argument() {
    for (schema, body, expected) in [
        (json!({ "type": "array", "items": { "type": "integer" } }), json!([1, 2]), "[1,2]"),
        (json!({ "type": "string" }), json!("x"), "\"x\""),
        (json!({ "type": "object", "additionalProperties": { "type": "integer" } }), json!({ "k": 1 }), r#"{"k":1}"#),
        (
            json!({ "oneOf": [{ "type": "object", "properties": { "a": {} } }, { "type": "null" }] }),
            json!({ "a": 1 }),
            r#"{"a":1}"#,
        ),
        (json!({ "type": "object" }), json!({ "free": true }), r#"{"free":true}"#),
        (json!(true), json!(7), "7"),
    ] {
        let tool = tool_with(body_operation("application/json", &json!({ "schema": schema })), &json!({}));
        assert_eq!(tool.input_schema["required"], json!(["body"]), "{schema}");
        let arguments = check_arguments(&tool.input_schema, json!({ "body": body })).unwrap();
        assert_eq!(body_text(&request(&tool, &arguments).unwrap()), expected);
    }
}

#[test]
fn an_optional_body_is_sent_only_when_something_is_in_it() {
    let media =
        json!({ "schema": { "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } } });
    let optional = tool_with(json!({ "requestBody": { "content": { "application/json": media } } }), &json!({}));
    assert_eq!(optional.input_schema.get("required"), None);
    let without = request(&optional, &json!({})).unwrap();
    assert_eq!((without.body.as_ref(), header(&without, "content-type")), (None, None));
    assert_eq!(body_text(&request(&optional, &json!({ "a": "x" })).unwrap()), r#"{"a":"x"}"#);
    let media = json!({ "schema": { "type": "object", "properties": { "a": { "type": "string" } } } });
    let required = tool_with(body_operation("application/json", &media), &json!({}));
    assert_eq!(body_text(&request(&required, &json!({})).unwrap()), "{}");
}

#[test]
fn forms_are_written_property_by_property() {
    let media = json!({
        "schema": { "type": "object", "properties": {
            "name": { "type": "string" }, "tags": { "type": "array", "items": { "type": "string" } },
            "address": { "type": "object" }, "deep": { "type": "object" }, "list": { "type": "array" },
            "csv": { "type": "array" }, "raw": { "type": "string" }, "json": { "type": "array" }, "none": {},
        } },
        "encoding": {
            "deep": { "style": "deepObject", "explode": true }, "list": { "style": "deepObject", "explode": true },
            "csv": { "explode": false }, "raw": { "allowReserved": true }, "json": { "contentType": "application/json" },
        },
    });
    let tool = tool_with(body_operation("application/x-www-form-urlencoded", &media), &json!({}));
    let arguments = json!({
        "name": "A & B=ü", "tags": ["x", "y z"], "address": { "zip": "99999+1234" },
        "deep": { "a": { "b": [1, 2] }, "c": true }, "list": ["p", "q"], "csv": [1, 2], "raw": "a/b:c&d", "json": [1], "none": null,
    });
    let request = request(&tool, &arguments).unwrap();
    assert_eq!(header(&request, "content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(
        body_text(&request),
        "name=A+%26+B%3D%C3%BC&tags=x&tags=y+z&address=%7B%22zip%22%3A%2299999%2B1234%22%7D\
         &deep%5Ba%5D%5Bb%5D%5B0%5D=1&deep%5Ba%5D%5Bb%5D%5B1%5D=2&deep%5Bc%5D=true\
         &list%5B0%5D=p&list%5B1%5D=q&csv=1,2&raw=a/b:c%26d&json=%5B1%5D"
    );
}

#[test]
fn multipart_bodies_have_a_part_for_each_property_and_file() {
    let media = json!({
        "schema": { "type": "object", "required": ["file"], "properties": {
            "title": { "type": "string" }, "count": { "type": "integer" }, "meta": { "type": "object" },
            "tags": { "type": "array", "items": { "type": "string" } },
            "file": { "type": "string", "format": "binary" },
            "more": { "type": "array", "items": { "type": "string", "contentMediaType": "application/octet-stream" } },
            "icon": { "type": "string", "format": "binary" },
        } },
        "encoding": { "icon": { "contentType": "image/png, image/jpeg" } },
    });
    let tool = tool_with(body_operation("multipart/form-data", &media), &json!({}));
    let arguments = json!({
        "title": "Hi", "count": 3, "meta": { "a": 1 }, "tags": ["x", "y"],
        "file": { "name": "dir/a\"b\r\n.bin", "mimeType": "application/x-thing", "encoding": "base64", "data": "AAH/" },
        "more": [{ "data": "eA==" }, { "encoding": "utf8", "data": "ü", "name": "u.txt", "mimeType": "text/plain\r\nX-Evil: 1" }],
        "icon": { "data": "AQ" },
    });
    let arguments = check_arguments(&tool.input_schema, arguments).unwrap();
    let request = request(&tool, &arguments).unwrap();
    let content_type = header(&request, "content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let part = |head: &str, data: &[u8]| {
        let mut bytes = format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n").into_bytes();
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(b"\r\n");
        bytes
    };
    let octets = "application/octet-stream";
    let expected: Vec<u8> = [
        part("name=\"title\"", b"Hi"),
        part("name=\"count\"", b"3"),
        part("name=\"meta\"\r\nContent-Type: application/json", br#"{"a":1}"#),
        part("name=\"tags\"", b"x"),
        part("name=\"tags\"", b"y"),
        part("name=\"file\"; filename=\"a%22b%0D%0A.bin\"\r\nContent-Type: application/x-thing", &[0, 1, 255]),
        part(&format!("name=\"more\"; filename=\"file\"\r\nContent-Type: {octets}"), b"x"),
        part(&format!("name=\"more\"; filename=\"u.txt\"\r\nContent-Type: {octets}"), "ü".as_bytes()),
        part("name=\"icon\"; filename=\"file\"\r\nContent-Type: image/png", &[1]),
        format!("--{boundary}--\r\n").into_bytes(),
    ]
    .concat();
    assert_eq!(String::from_utf8_lossy(request.body.as_ref().unwrap()), String::from_utf8_lossy(&expected));
    assert_eq!(request.body.unwrap(), expected);
}

#[test]
fn text_binary_and_line_bodies_are_sent_as_declared() {
    let file = json!({ "encoding": "base64", "data": "AP8B", "mimeType": "image/gif" });
    for (media_type, schema, body, content_type, bytes) in [
        ("text/plain", json!({ "type": "string" }), json!("grün\n"), "text/plain", "grün\n".as_bytes()),
        ("application/xml", json!({ "type": "object" }), json!("<a/>"), "application/xml", b"<a/>"),
        (
            "application/octet-stream",
            json!({ "type": "string", "format": "binary" }),
            file.clone(),
            "application/octet-stream",
            &[0, 255, 1],
        ),
        ("image/*", json!({}), file.clone(), "image/gif", &[0, 255, 1]),
        ("*/*", json!({ "type": "string", "format": "binary" }), file, "image/gif", &[0, 255, 1]),
        ("*/*", json!({ "type": "array" }), json!([1]), "application/json", b"[1]"),
        (
            "application/x-ndjson",
            json!({ "type": "array" }),
            json!([{ "a": 1 }, 2]),
            "application/x-ndjson",
            b"{\"a\":1}\n2\n",
        ),
    ] {
        let tool = tool_with(body_operation(media_type, &json!({ "schema": schema })), &json!({}));
        let arguments = check_arguments(&tool.input_schema, json!({ "body": body })).unwrap();
        let request = request(&tool, &arguments).unwrap();
        assert_eq!(header(&request, "content-type"), Some(content_type), "{media_type}");
        assert_eq!(request.body.as_deref(), Some(bytes), "{media_type}");
    }
}

#[test]
fn files_that_are_not_base64_are_refused() {
    let tool = tool_with(body_operation("application/octet-stream", &json!({})), &json!({}));
    for body in [json!({ "data": "%%%" }), json!({ "data": "AA==", "encoding": "hex" }), json!({ "name": "x" })] {
        assert!(matches!(request(&tool, &json!({ "body": body })), Err(RequestError::Unwritable { .. })), "{body}");
    }
    let wrapped = json!({ "body": { "data": "AP8B\r\n_-8" } });
    assert!(request(&tool, &wrapped).is_ok());
}

#[test]
fn json_is_preferred_and_never_json_patch() {
    for (declared, chosen) in [
        (vec!["multipart/form-data", "application/json"], "application/json"),
        (
            vec!["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"],
            "application/merge-patch+json",
        ),
        (vec!["text/plain", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded"),
        (vec!["application/xml", "application/vnd.x+json"], "application/vnd.x+json"),
    ] {
        let content: serde_json::Map<String, Value> = declared
            .into_iter()
            .map(|media_type| (media_type.to_owned(), json!({ "schema": { "type": "object" } })))
            .collect();
        let tool = tool_with(json!({ "requestBody": { "content": content } }), &json!({}));
        assert_eq!(http(&tool).body.as_ref().unwrap().media_type, chosen);
    }
}

#[test]
fn nested_properties_with_odd_names_are_sent_under_their_names() {
    let schema =
        json!({ "type": "object", "properties": { "item": { "$ref": "#/components/schemas/Item" }, "free": {} } });
    let components = json!({ "schemas": { "Item": { "type": "object", "required": ["@odata.type"], "properties": {
        "@odata.type": { "type": "string" }, "$ref": { "type": "string" }, "ok": { "type": "object" }, "items": { "type": "array", "items": { "$ref": "#/components/schemas/Item" } }
    } } } });
    let tool = tool_with(body_operation("application/json", &json!({ "schema": schema })), &components);
    let item = &tool.input_schema["$defs"]["Item"];
    let keys: Vec<&str> = item["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["_40odata.type", "_24ref", "ok", "items"]);
    assert_eq!(item["required"], json!(["_40odata.type"]));
    let arguments = json!({ "item": { "_40odata.type": "x", "items": [{ "_40odata.type": "y", "_24ref": "z" }] } });
    let arguments = check_arguments(&tool.input_schema, arguments).unwrap();
    assert_eq!(
        body_text(&request(&tool, &arguments).unwrap()),
        r#"{"item":{"@odata.type":"x","items":[{"@odata.type":"y","$ref":"z"}]}}"#
    );
}

#[test]
fn accept_names_what_the_operation_answers_with() {
    let operation = json!({ "responses": {
        "200": { "content": { "text/csv": {}, "application/json": {} } },
        "404": { "content": { "application/problem+json": {} } },
    } });
    let tool = tool_with(operation, &json!({}));
    assert_eq!(header(&request(&tool, &json!({})).unwrap(), "accept"), Some("application/json, text/csv;q=0.5"));
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let media =
        json!({ "schema": { "type": "object", "properties": { "file": { "type": "string", "format": "binary" } } } });
    let tool = tool_with(body_operation("multipart/form-data", &media), &json!({}));
    let arguments = json!({ "file": { "data": "AAAA" } });
    assert_eq!(request(&tool, &arguments), request(&tool, &arguments));
}

#[test]
fn places_are_written_as_their_operator_says() {
    for (place, value, expected) in [
        ("{name}", "a/b", "a%2Fb"),
        ("{+name}", "projects/p 1/jobs/j?", "projects/p%201/jobs/j%3F"),
        ("{name=**}", "a/b", "a/b"),
        ("{name=projects/*}", "projects/7", "projects/7"),
        ("{name+}", "a/b", "a/b"),
        ("{*name}", "a/b", "a/b"),
        ("{name:path}", "a/b", "a/b"),
        ("{name:[^/?]+}", "a/b", "a%2Fb"),
        ("{name}{?page,size}", "a/b", "a%2Fb"),
    ] {
        let parameters = json!([
            { "name": "name", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "page", "in": "query", "schema": { "type": "integer" } },
        ]);
        let import = import(&document(
            &json!({ format!("/v1/{place}:run"): { "post": { "parameters": parameters } } }),
            &json!({}),
        ));
        let tool = &import.tools[0];
        assert_eq!(tool.input_schema["required"], json!(["name"]), "{place}");
        assert!(import.report.is_empty(), "{place}: {:?}", import.report);
        let sent = request(tool, &json!({ "name": value, "page": 2 })).unwrap();
        assert_eq!(sent.url, format!("https://api.example.com/v1/v1/{expected}:run?page=2"), "{place}");
        if value.contains('/') && expected.contains('/') {
            assert!(
                request(tool, &json!({ "name": "a/../../admin" })).is_err(),
                "{place} does not lead out of its path"
            );
        }
    }
}
