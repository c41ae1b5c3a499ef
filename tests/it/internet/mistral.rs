//! The part of the Mistral API that its client uses for a chat: whole, and as a stream of events. One key is good.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::https::{Reply, json_reply, plain};

/// The name of the API.
pub const HOST: &str = "api.mistral.ai";
/// The key that it takes.
pub const KEY: &str = "canary-mistral-0123456789abcdefXYZ";

/// Answers a request to the API.
pub async fn serve(request: Request<Incoming>) -> Response<Reply> {
    let sent = request.headers().get("authorization").map(http::HeaderValue::as_bytes);
    if sent != Some(format!("Bearer {KEY}").as_bytes()) {
        let mut refusal = json_reply(&json!({ "detail": "Unauthorized" }));
        *refusal.status_mut() = StatusCode::UNAUTHORIZED;
        return refusal;
    }
    if request.uri().path() != "/v1/chat/completions" {
        return plain(StatusCode::NOT_FOUND, Reply::text("no such route\n"));
    }
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = asked["messages"][0]["content"].as_str().unwrap_or_default().to_uppercase();
    if asked["stream"] == true { streamed(&said) } else { json_reply(&whole(&said)) }
}

fn whole(said: &str) -> Value {
    let message = json!({ "role": "assistant", "content": said, "tool_calls": null });
    json!({
        "id": "cmpl-1", "object": "chat.completion", "model": "mistral-small-latest", "created": 1,
        "usage": { "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 },
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
    })
}

/// One event for each word, and the end.
fn streamed(said: &str) -> Response<Reply> {
    let (events, body) = unbounded_channel();
    let words: Vec<&str> = said.split_inclusive(' ').collect();
    for (number, word) in words.iter().enumerate() {
        let finish = (number + 1 == words.len()).then_some("stop");
        let choice = json!({ "index": 0, "delta": { "role": "assistant", "content": word }, "finish_reason": finish });
        let event = json!({
            "id": "cmpl-2", "object": "chat.completion.chunk", "model": "mistral-small-latest", "created": 1, "choices": [choice],
        });
        // The receiver is in the answer.
        let _ = events.send(Bytes::from(format!("data: {event}\n\n")));
    }
    let _ = events.send(Bytes::from_static(b"data: [DONE]\n\n"));
    let mut response = plain(StatusCode::OK, Reply::Events(body));
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    response
}
