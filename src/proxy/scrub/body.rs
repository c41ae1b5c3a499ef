//! A response's body and trailers on their way through the search.

use std::sync::Arc;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::credentials::Watch;

use super::decode::{Chain, Coding, Corrupt, PIECE};
use super::frames::{Framing, Masker, Unreadable};
use super::mask_headers;

/// What a body is put through: its codings are undone, then it is masked.
pub struct BodyFilter {
    values: Arc<Watch>,
    chain: Option<Chain>,
    masker: Masker,
    /// Of a body without a coding, what has come.
    input: Bytes,
    /// Of a body with one, where it is decoded to.
    scratch: Vec<u8>,
    state: State,
}

enum State {
    /// Nothing has come yet.
    Fresh,
    Reading,
    /// Everything has come.
    Ending(Option<http::HeaderMap>),
    Trailers(Option<http::HeaderMap>),
    Done,
}

/// Why a body breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unscrubbable {
    /// It cannot be decoded.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Its messages cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl BodyFilter {
    /// For a body of these codings, in the order of `Content-Encoding`.
    pub fn new(values: Arc<Watch>, codings: &[Coding], framing: Framing) -> Self {
        let chain = (!codings.is_empty()).then(|| Chain::new(codings));
        let masker = Masker::new(Arc::clone(&values), framing);
        let scratch = if chain.is_some() { vec![0; PIECE] } else { Vec::new() };
        Self { values, chain, masker, input: Bytes::new(), scratch, state: State::Fresh }
    }

    /// Takes what has come, once [`Self::next_frame`] has nothing left.
    pub fn feed(&mut self, data: Bytes) {
        self.state = State::Reading;
        match &mut self.chain {
            Some(chain) => chain.feed(data),
            None => self.input = data,
        }
    }

    /// Nothing more comes, but these trailers.
    pub fn end(&mut self, trailers: Option<http::HeaderMap>) {
        self.state = State::Ending(trailers);
    }

    /// What is left of it where the protocol changes and there is no body.
    pub fn into_masker(self) -> Masker {
        self.masker
    }

    /// What is ready, a piece at a time.
    ///
    /// # Errors
    /// [`Unscrubbable`]; the body ends there.
    pub fn next_frame(&mut self) -> Result<Option<Frame<Bytes>>, Unscrubbable> {
        let next = self.try_next();
        if next.is_err() {
            self.state = State::Done;
        }
        next
    }

    /// Whether nothing comes any more.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether it holds nothing of a body that has ended.
    pub fn is_empty(&self) -> bool {
        matches!(self.state, State::Fresh | State::Done)
    }

    /// How much comes, when so much is still to come from upstream.
    pub fn size_hint(&self, rest: &SizeHint) -> SizeHint {
        let held = (self.input.len() + self.masker.held()) as u64;
        match (&self.chain, rest.exact(), &self.state) {
            (_, _, State::Done) => SizeHint::with_exact(0),
            (None, Some(rest), _) => SizeHint::with_exact(rest + held),
            (Some(_), Some(0), State::Fresh) => SizeHint::with_exact(0),
            (None, None, _) | (Some(_), _, _) => SizeHint::default(),
        }
    }

    fn try_next(&mut self) -> Result<Option<Frame<Bytes>>, Unscrubbable> {
        loop {
            match &mut self.state {
                State::Fresh | State::Done => return Ok(None),
                State::Reading => return Ok(self.piece()?.map(Frame::data)),
                State::Ending(trailers) => {
                    let trailers = trailers.take();
                    if let Some(piece) = self.piece()? {
                        self.state = State::Ending(trailers);
                        return Ok(Some(Frame::data(piece)));
                    }
                    self.chain.as_ref().map_or(Ok(()), Chain::finish)?;
                    self.state = State::Trailers(trailers);
                    let rest = self.masker.finish();
                    if !rest.is_empty() {
                        return Ok(Some(Frame::data(rest)));
                    }
                }
                State::Trailers(trailers) => {
                    let trailers = trailers.take();
                    self.state = State::Done;
                    return Ok(trailers.map(|mut fields| {
                        mask_headers(&self.values.current(), &mut fields);
                        Frame::trailers(fields)
                    }));
                }
            }
        }
    }

    /// The next bytes that are ready, if any are.
    fn piece(&mut self) -> Result<Option<Bytes>, Unscrubbable> {
        loop {
            let decoded = match &mut self.chain {
                None => std::mem::take(&mut self.input),
                Some(chain) => {
                    let length = chain.pull(&mut self.scratch)?;
                    Bytes::copy_from_slice(&self.scratch[..length])
                }
            };
            if decoded.is_empty() {
                return Ok(None);
            }
            let ready = self.masker.push(decoded)?;
            if !ready.is_empty() {
                return Ok(Some(ready));
            }
        }
    }
}

#[cfg(test)]
mod tests;
