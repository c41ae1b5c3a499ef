//! Where a GitHub is.

use crate::types::{Authority, Endpoint, EndpointError};

/// GitHub, or a GitHub of one's own: where its pages and its APIs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubSite {
    host: String,
    /// Without a slash at its end, like `rest`.
    web: String,
    rest: String,
    graphql: String,
    api_authority: Authority,
}

/// Why a text names no [`GitHubSite`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// It is no host.
    #[error(transparent)]
    Host(#[from] EndpointError),
    /// A URL.
    #[error("it is more than a host; write github.com, or the host of your own GitHub")]
    More,
    /// The host of an API.
    #[error("it is the host of an API; write the one of the pages, such as github.com or acme.ghe.com")]
    Api,
}

impl GitHubSite {
    /// github.com.
    pub const GITHUB: &'static str = "github.com";

    /// The site whose pages are at `host`, with a port where it is not 443: github.com, a tenant of ghe.com, or a GitHub
    /// Enterprise Server, whose API is at `/api/v3`.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn new(host: &str) -> Result<Self, SiteError> {
        if host.contains(['/', '?', '#']) {
            return Err(SiteError::More);
        }
        let web = Endpoint::parse(&format!("https://{host}"))?.to_string();
        let host = web.trim_start_matches("https://").to_owned();
        if host.starts_with("api.") {
            return Err(SiteError::Api);
        }
        let (rest, graphql) = match host.as_str() {
            Self::GITHUB => ("https://api.github.com".to_owned(), "https://api.github.com/graphql".to_owned()),
            tenant if tenant.ends_with(".ghe.com") => {
                (format!("https://api.{tenant}"), format!("https://api.{tenant}/graphql"))
            }
            server => (format!("https://{server}/api/v3"), format!("https://{server}/api/graphql")),
        };
        let api_authority = Endpoint::parse(&rest)?.authority().clone();
        Ok(Self { host, web, rest, graphql, api_authority })
    }

    /// Its host, with the port where it is not 443.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Host and port of its REST API.
    pub fn api_authority(&self) -> &Authority {
        &self.api_authority
    }

    /// Where its pages and git begin, without a slash at the end.
    pub fn pages(&self) -> &str {
        &self.web
    }

    /// Where its REST API begins, without a slash at the end.
    pub fn rest(&self) -> &str {
        &self.rest
    }

    /// Where GraphQL is asked.
    pub fn graphql(&self) -> &str {
        &self.graphql
    }

    /// A place of the REST API, by its path from `/` on.
    ///
    /// # Errors
    /// [`EndpointError::Path`] for a path that is none.
    pub fn api(&self, path: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(&format!("{}{path}", self.rest))
    }

    /// A place of the pages and of git, by its path from `/` on.
    ///
    /// # Errors
    /// [`EndpointError::Path`] for a path that is none.
    pub fn web(&self, path: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(&format!("{}{path}", self.web))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_their_apis_where_they_are() {
        for (host, api, graphql, web) in [
            (
                "GitHub.com",
                "https://api.github.com/user",
                "https://api.github.com/graphql",
                "https://github.com/a/b.git",
            ),
            (
                "acme.ghe.com",
                "https://api.acme.ghe.com/user",
                "https://api.acme.ghe.com/graphql",
                "https://acme.ghe.com/a/b.git",
            ),
            (
                "ghes.test:8443",
                "https://ghes.test:8443/api/v3/user",
                "https://ghes.test:8443/api/graphql",
                "https://ghes.test:8443/a/b.git",
            ),
        ] {
            let site = GitHubSite::new(host).unwrap();
            assert_eq!(site.host(), host.to_ascii_lowercase());
            assert_eq!(
                (site.api("/user").unwrap().url().as_str(), site.web("/a/b.git").unwrap().url().as_str()),
                (api, web)
            );
            assert_eq!((format!("{}/user", site.rest()).as_str(), site.graphql()), (api, graphql));
        }
        assert_eq!(GitHubSite::new("https://github.com"), Err(SiteError::More));
        assert_eq!(GitHubSite::new("github.com/acme"), Err(SiteError::More));
        assert_eq!(GitHubSite::new("API.github.com"), Err(SiteError::Api));
        assert_eq!(GitHubSite::new("u@github.com"), Err(SiteError::Host(EndpointError::Credentials)));
        assert!(matches!(GitHubSite::new(""), Err(SiteError::Host(_))));
    }
}
