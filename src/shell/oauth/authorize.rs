//! `/oauth/authorize`: a person reads which client wants what, and agrees or not. The client is told by a redirect.

use worker::{Request, Response};

use super::super::authentication::json_request;
use super::super::clock::now;
use super::super::http::query_fields;
use super::super::outbound::{self, Limits, Outgoing};
use super::super::pages::{Fields, Visit, field, from_page, message, name_of, redirect, visit};
use super::super::random::random_hex;
use super::super::telemetry::log;
use super::super::{mcp_edge, organization};
use super::OAuth;
use crate::auth::{Principal, Purpose};
use crate::console::pages as html;
use crate::oauth::{
    self, CLIENT_METADATA_LIMIT, Client, Fault, Grant, GrantStep, Handle, PENDING_LIFETIME_MS, Pending,
    is_metadata_url, registered_client,
};

/// How long a client's document may take.
const DOCUMENT_TIMEOUT_MS: u64 = 5_000;

/// `GET` shows the question, `POST` takes the answer. `person` is signed in.
pub(in crate::shell) async fn authorize(
    mut request: Request,
    oauth: &OAuth<'_>,
    person: Principal,
) -> worker::Result<Response> {
    if person.purpose != Purpose::Browser {
        return message(
            403,
            "For people",
            "A credential of a program does not agree to anything here. Sign in with a browser.",
        );
    }
    match visit(&mut request, oauth.edge, "The answer has").await? {
        Visit::Looks => ask(oauth, &person).await,
        Visit::Sends(fields) => decide(&fields, oauth, &person).await,
        Visit::Refused(response) => Ok(response),
    }
}

async fn ask(oauth: &OAuth<'_>, person: &Principal) -> worker::Result<Response> {
    let edge = oauth.edge;
    let query = query_fields(&edge.url);
    let client = match client_of(oauth, &query).await {
        Ok(client) => client,
        Err(problem) => return message(400, "This request cannot be answered", &problem),
    };
    let default = mcp_edge::resource_url(&edge.origin, mcp_edge::DEFAULT_RESOURCE);
    let request =
        match oauth::read_request(&query, &client, &edge.origin, &default, |text| is_resource(&edge.origin, text)) {
            Ok(request) => request,
            Err(Fault::Page(problem)) => return message(400, "This request cannot be answered", &problem),
            Err(Fault::Redirect(url)) => return redirect(&url),
        };
    let client_name = client.name.clone().unwrap_or_else(|| "A client without a name".to_owned());
    let destination = request.destination();
    let pending = Pending {
        client_name: client_name.clone(),
        account: person.account.clone(),
        organization: person.organization.clone(),
        expires_at: now().saturating_add(PENDING_LIFETIME_MS),
        request,
    };
    let view = html::Consent {
        client: &client_name,
        vouched_by: client.host.as_deref(),
        redirect_uri: &pending.request.redirect_uri,
        resource: &pending.request.resource,
        pending: &oauth.signers.pending.sign(&pending)?,
    };
    from_page(200, html::consent_page(&view, &name_of(person)), &html::consent_headers(&destination))
}

async fn decide(fields: &Fields, oauth: &OAuth<'_>, person: &Principal) -> worker::Result<Response> {
    let edge = oauth.edge;
    let pending = field(fields, "pending").and_then(|text| oauth.signers.pending.read::<Pending>(text));
    let Some(pending) = pending.filter(|pending| now() < pending.expires_at) else {
        let text = "The question is too old, or was not asked by this gateway. Start again from the program that sent you here.";
        return message(400, "Ask again", text);
    };
    // What one person was asked, another one does not answer.
    if !person.owns(&pending.account, &pending.organization) {
        let text = "Another account is signed in now than the one that was asked. Start again from the program that sent you here.";
        return message(403, "Another account", text);
    }
    let agrees = match field(fields, "action") {
        Some("allow") => true,
        Some("deny") => false,
        Some(_) | None => return message(400, "Nothing was chosen", "Choose whether to allow it."),
    };
    log("mcp_oauth_consent", serde_json::json!({ "organization": person.organization, "allowed": agrees }));
    if !agrees {
        return redirect(&pending.request.denied_redirect(&edge.origin));
    }
    let id = random_hex::<16>()?;
    let handle = Handle { organization: pending.organization, grant: id.clone(), nonce: random_hex::<16>()? };
    let code = oauth.signers.code.sign(&handle)?;
    let target = pending.request.code_redirect(&code, &edge.origin);
    let whose = (pending.account, person.admin);
    let grant = Grant::new(id, whose, pending.request, pending.client_name, &code, now());
    organization::grant_step(edge.env, &handle.organization, &GrantStep::Open { grant: Box::new(grant) }).await?;
    redirect(&target)
}

/// Whether a URL is one of the gateway's own endpoints. Whether there is such a toolkit is found out when it is used.
fn is_resource(origin: &str, text: &str) -> bool {
    match text.strip_prefix(origin) {
        Some("/mcp") => true,
        Some(path) => path.strip_prefix("/mcp/toolkits/").is_some_and(mcp_edge::is_slug),
        None => false,
    }
}

/// The client that a request names, or what the person reads instead.
async fn client_of(oauth: &OAuth<'_>, query: &[(String, String)]) -> Result<Client, String> {
    let mut ids = query.iter().filter(|(name, _)| name == "client_id").map(|(_, id)| id.as_str());
    let id = ids.next().filter(|id| !id.is_empty()).ok_or("The request does not say which client it comes from.")?;
    if ids.next().is_some() {
        return Err("The request names two clients.".to_owned());
    }
    if let Some(client) = registered_client(&oauth.signers.client, id) {
        return Ok(client);
    }
    if !is_metadata_url(id) {
        return Err("This gateway does not know the client that asks. Remove the connection in the program that sent you here, and add it again."
            .to_owned());
    }
    let limits = Limits {
        time_ms: DOCUMENT_TIMEOUT_MS,
        bytes: CLIENT_METADATA_LIMIT,
        allow_local: oauth.edge.settings.allow_local_network,
    };
    let request = json_request(id);
    // Not followed anywhere: the URL is the client's name (section 3 of the draft).
    let outgoing = Outgoing { follow_redirects: false, ..Outgoing::new(&request) };
    match outbound::send(outgoing, limits).await {
        Ok(answer) if answer.status == 200 => oauth::read_client_metadata(id, &answer.body),
        Ok(answer) => Err(format!("The client's document could not be read: its server answered {}.", answer.status)),
        Err(error) => Err(format!("The client's document could not be read: {error}")),
    }
}
