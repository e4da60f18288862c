//! How to connect a client, and what this gateway offers to whom.

use askama::Template;

use super::markup::{Html, inline};
use super::{Frame, render};

/// What clients prove themselves with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// Nothing is asked for.
    Nothing,
    /// The client opens a browser, where its person signs in.
    SignIn,
    /// A bearer, such as an API key.
    Bearer,
}

/// What the page is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent fact")]
pub struct Connection<'a> {
    /// The gateway's own origin.
    pub origin: &'a str,
    /// `account@organization`
    pub person: &'a str,
    /// Whether the person administers.
    pub admin: bool,
    /// There is no Worker Loader binding.
    pub loader_missing: bool,
    /// Tools are offered one by one, unless a client asks for something else.
    pub direct: bool,
    /// What clients prove themselves with.
    pub credential: Credential,
    /// API keys are taken too.
    pub keys: bool,
    /// Development mode: every name is believed.
    pub development: bool,
}

/// One way to connect.
struct Way {
    client: &'static str,
    hint: &'static str,
    text: String,
}

#[derive(Template)]
#[template(path = "home.html")]
#[expect(clippy::struct_excessive_bools, reason = "each shows one part of the page or not")]
struct HomeTemplate {
    frame: Frame,
    endpoint: String,
    person: Html,
    admin: bool,
    development: bool,
    loader_missing: bool,
    direct: bool,
    credential: &'static str,
    with_key: bool,
    ways: Vec<Way>,
}

/// How to connect.
#[must_use]
pub fn home_page(connection: &Connection<'_>) -> String {
    let endpoint = format!("{}/mcp", connection.origin.trim_end_matches('/'));
    let with_key = connection.credential == Credential::Bearer;
    render(&HomeTemplate {
        frame: Frame::at("/", connection.person),
        person: inline(connection.person),
        admin: connection.admin,
        development: connection.development,
        loader_missing: connection.loader_missing,
        direct: connection.direct,
        credential: match (connection.credential, connection.keys) {
            (Credential::Nothing, _) => "Clients need no credential here.",
            (Credential::SignIn, false) => {
                "A client opens a browser, and you sign in there; nothing has to be entered into its settings."
            }
            (Credential::SignIn, true) => {
                "A client opens a browser, and you sign in there. A program that cannot do that uses an API key with the purpose mcp, as a bearer."
            }
            (Credential::Bearer, true) => {
                "A client needs an API key with the purpose mcp, as a bearer. Put it into the environment variable COUNTERSIGN_KEY rather than into a file that others read."
            }
            (Credential::Bearer, false) => {
                "A client needs a bearer. Put it into the environment variable COUNTERSIGN_KEY."
            }
        },
        with_key,
        ways: ways(&endpoint, with_key),
        endpoint,
    })
}

/// Each with the header that a bearer is sent in, where one is needed.
fn ways(endpoint: &str, with_key: bool) -> Vec<Way> {
    let when = |text: &'static str| if with_key { text } else { "" };
    vec![
        Way {
            client: "Claude Code",
            hint: "Run this once; add --scope user to have it in every project.",
            text: format!(
                "claude mcp add --transport http countersign {endpoint}{}",
                when(" \\\n  --header \"Authorization: Bearer $COUNTERSIGN_KEY\"")
            ),
        },
        Way {
            client: "VS Code",
            hint: "Put this into .vscode/mcp.json of a project, or into what the command “MCP: Open User Configuration” opens.",
            text: format!(
                "{{\n  \"servers\": {{\n    \"countersign\": {{\n      \"type\": \"http\",\n      \"url\": \"{endpoint}\"{}\n    }}\n  }}{}\n}}",
                when(",\n      \"headers\": { \"Authorization\": \"Bearer ${input:countersign-key}\" }"),
                when(
                    ",\n  \"inputs\": [\n    { \"type\": \"promptString\", \"id\": \"countersign-key\", \"description\": \"Countersign key\", \"password\": true }\n  ]"
                )
            ),
        },
        Way {
            client: "Cursor",
            hint: "Put this into .cursor/mcp.json of a project, or into ~/.cursor/mcp.json for all.",
            text: format!(
                "{{\n  \"mcpServers\": {{\n    \"countersign\": {{\n      \"url\": \"{endpoint}\"{}\n    }}\n  }}\n}}",
                when(",\n      \"headers\": { \"Authorization\": \"Bearer ${env:COUNTERSIGN_KEY}\" }")
            ),
        },
        Way {
            client: "MCP Inspector",
            hint: "Lists the tools on the command line; without --cli and --method it opens the Inspector’s page.",
            text: format!(
                "npx @modelcontextprotocol/inspector --cli --transport http --server-url {endpoint} --method tools/list{}",
                when(" \\\n  --header \"Authorization: Bearer $COUNTERSIGN_KEY\"")
            ),
        },
        Way {
            client: "TypeScript SDK",
            hint: "From a program, with the package @modelcontextprotocol/client.",
            text: format!(
                "import {{ Client, StreamableHTTPClientTransport }} from \"@modelcontextprotocol/client\";\n\n\
                 const client = new Client({{ name: \"my-program\", version: \"1.0.0\" }});\n\
                 const transport = new StreamableHTTPClientTransport(new URL(\"{endpoint}\"){});\n\
                 await client.connect(transport);\n\
                 console.log(await client.listTools());",
                when(", {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.COUNTERSIGN_KEY}` } },\n}")
            ),
        },
        Way {
            client: "Python SDK",
            hint: "From a program, with the package mcp in version 2.",
            text: if with_key {
                format!(
                    "import asyncio, os\n\nimport httpx2\nfrom mcp import Client\nfrom mcp.client.streamable_http import streamable_http_client\n\n\n\
                     async def main():\n    headers = {{\"Authorization\": f\"Bearer {{os.environ['COUNTERSIGN_KEY']}}\"}}\n    \
                     async with httpx2.AsyncClient(headers=headers, timeout=300) as http:\n        \
                     async with Client(streamable_http_client(\"{endpoint}\", http_client=http)) as client:\n            \
                     print(await client.list_tools())\n\n\nasyncio.run(main())"
                )
            } else {
                format!(
                    "import asyncio\n\nfrom mcp import Client\n\n\nasync def main():\n    async with Client(\"{endpoint}\") as client:\n        \
                     print(await client.list_tools())\n\n\nasyncio.run(main())"
                )
            },
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTION: Connection<'_> = Connection {
        origin: "https://gate.example/",
        person: "ann@acme",
        admin: false,
        loader_missing: false,
        direct: false,
        credential: Credential::Nothing,
        keys: false,
        development: false,
    };

    fn assert_has(html: &str, parts: &[&str]) {
        for part in parts {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }

    #[test]
    fn home_says_how_to_connect() {
        let html = home_page(&CONNECTION);
        assert_has(
            &html,
            &[
                "claude mcp add --transport http countersign https://gate.example/mcp<",
                "npx @modelcontextprotocol/inspector --cli --transport http --server-url https://gate.example/mcp --method tools/list<",
                ".vscode/mcp.json",
                ".cursor/mcp.json",
                "StreamableHTTPClientTransport",
                "from mcp import Client",
                "<b>ann@acme</b>",
            ],
        );
        assert!(!html.contains("is not offered") && !html.contains("COUNTERSIGN_KEY"));
    }

    #[test]
    fn a_bearer_is_in_every_way_and_never_as_itself() {
        let html = home_page(&Connection { credential: Credential::Bearer, keys: true, ..CONNECTION });
        assert_eq!(html.matches("COUNTERSIGN_KEY").count(), 6, "{html}");
        assert_has(&html, &["${input:countersign-key}", "href=\"/keys\""]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let html = home_page(&Connection { loader_missing: true, direct: true, development: true, ..CONNECTION });
        assert_has(&html, &["<code>execute</code> is not offered", "LOADER", "one by one", "believes every name"]);
    }
}
