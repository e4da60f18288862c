//! The stream of `GET` without `Last-Event-ID`: what belongs to no request.
//!
//! Between Worker and object it is a hibernatable WebSocket, so that an open stream does not keep the object in memory. The
//! Worker turns its messages into events and writes the keep-alives.

use std::rc::Rc;

use serde_json::json;
use worker::{Response, WebSocket, WebSocketPair};

use super::Session;
use super::outcome::Failure;
use crate::protocol::outgoing::notification;
use crate::session::SessionMeta;
use crate::shell::organization;
use crate::shell::telemetry::log_error;
use crate::upstream::Changed;

/// Closes a stream in good order (RFC 6455, section 7.4.1).
const NORMAL_CLOSURE: u16 = 1_000;

impl Session {
    /// Opens the stream; a second one replaces the first.
    pub(super) async fn open_standalone(self: &Rc<Self>, meta: &SessionMeta) -> Result<Response, Failure> {
        self.close_standalone("replaced");
        let pair = WebSocketPair::new()?;
        let runner = self.runner()?;
        runner.state().accept_web_socket(&pair.server);
        // Who has a stream is told of changes. The stream itself does not depend on it.
        if let Err(error) = organization::subscribe(&self.env, &meta.organization, &runner.object_id()).await {
            log_error("mcp_not_subscribed", json!({ "reason": error.to_string() }));
        }
        Ok(Response::from_websocket(pair.client)?)
    }

    fn standalone(&self) -> Vec<WebSocket> {
        self.runner().map(|runner| runner.state().get_websockets()).unwrap_or_default()
    }

    pub(super) fn close_standalone(&self, reason: &str) {
        for socket in self.standalone() {
            // One that is closing already needs no second close.
            let _ = socket.close(Some(NORMAL_CLOSURE), Some(reason));
        }
    }

    /// Tells of a change, which belongs to no request. Gives whether somebody reads.
    pub(super) fn tell(&self, what: Changed) -> bool {
        let text = match what {
            Changed::Tools => notification("notifications/tools/list_changed", None),
            Changed::Resources => notification("notifications/resources/list_changed", None),
            Changed::Prompts => notification("notifications/prompts/list_changed", None),
            Changed::Resource(uri) => notification("notifications/resources/updated", Some(json!({ "uri": uri }))),
        };
        let sent = self.standalone().iter().filter(|socket| socket.send_with_str(&text).is_ok()).count();
        sent > 0
    }

    /// The catalog changed: whoever reads is told. Gives whether somebody does.
    pub(super) fn catalog_changed(&self) -> bool {
        self.directory.borrow_mut().take();
        self.servers.forget();
        self.tell(Changed::Tools)
    }
}
