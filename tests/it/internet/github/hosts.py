"""Which host is what, and how the links of an answer begin."""

STORAGE = {
    "github-cloud.s3.amazonaws.com",
    "github-cloud.githubusercontent.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
    "results-receiver.actions.githubusercontent.com",
    "pipelines.actions.githubusercontent.com",
    "productionresultssa0.blob.core.windows.net",
}


class Site:
    """One GitHub: github.com, an Enterprise Server, or a tenant of ghe.com."""

    def __init__(self, web, api, graphql, uploads, raw, codeload):
        self.web, self.api, self.graphql = web, api, graphql
        self.uploads, self.raw, self.codeload = uploads, raw, codeload


PUBLIC = Site(
    "https://github.com",
    "https://api.github.com",
    "https://api.github.com/graphql",
    "https://uploads.github.com",
    "https://raw.githubusercontent.com",
    "https://codeload.github.com",
)
SERVER = Site(
    "https://ghes.test",
    "https://ghes.test/api/v3",
    "https://ghes.test/api/graphql",
    "https://ghes.test/api/uploads",
    "https://ghes.test/raw",
    "https://ghes.test/codeload",
)
TENANT = Site(
    "https://acme.ghe.com",
    "https://api.acme.ghe.com",
    "https://api.acme.ghe.com/graphql",
    "https://uploads.acme.ghe.com",
    "https://raw.acme.ghe.com",
    "https://codeload.acme.ghe.com",
)

HOSTS = {
    "github.com": (PUBLIC, "web"),
    "api.github.com": (PUBLIC, "api"),
    "uploads.github.com": (PUBLIC, "uploads"),
    "raw.githubusercontent.com": (PUBLIC, "raw"),
    "codeload.github.com": (PUBLIC, "codeload"),
    "media.githubusercontent.com": (PUBLIC, "media"),
    "lfs.github.com": (PUBLIC, "lfs"),
    "ghes.test": (SERVER, "web"),
    "acme.ghe.com": (TENANT, "web"),
    "api.acme.ghe.com": (TENANT, "api"),
    "uploads.acme.ghe.com": (TENANT, "uploads"),
    "raw.acme.ghe.com": (TENANT, "raw"),
    "codeload.acme.ghe.com": (TENANT, "codeload"),
    "lfs.acme.ghe.com": (TENANT, "lfs"),
}
# Below the web host of an Enterprise Server, and (older spelling) of a tenant; the prefix goes.
BELOW = [
    ("/api/v3", "api"),
    ("/api/graphql", "graphql"),
    ("/api/uploads", "uploads"),
    ("/raw", "raw"),
    ("/codeload", "codeload"),
]


def place(request):
    """The family that answers; sets the site of the request and takes the prefix off its path."""
    if request.host in STORAGE:
        request.site = PUBLIC
        return "storage"
    request.site, family = HOSTS.get(request.host, (PUBLIC, None))
    if family == "web" and request.site is not PUBLIC:
        for prefix, below in BELOW:
            if request.path == prefix or request.path.startswith(prefix + "/"):
                request.path = request.path[len(prefix):] or "/"
                family = below
                break
    if family == "api" and request.path == "/graphql":
        return "graphql"
    if family == "api" and request.path.split("/")[1] in ("app", "applications"):
        return "app"
    if family == "api" and request.path.endswith("/installation") and request.method == "GET":
        return "app"
    if family == "web" and request.path == "/login/oauth/access_token":
        return "app"
    return family
