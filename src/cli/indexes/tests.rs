use super::*;

/// A machine of its own for one test, removed when the test ends.
struct Machine {
    root: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl Machine {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("sandbox-proxy-indexes-{}-{name}", std::process::id()));
        std::fs::create_dir_all(root.join("home")).unwrap();
        Self { root, variables: Vec::new() }
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// `ROOT` in the value is where the machine's files are.
    fn variable(mut self, name: &str, value: &str) -> Self {
        let value = value.replace("ROOT", self.root.to_str().unwrap());
        self.variables.push((name.into(), value.into()));
        self
    }

    fn find(&self, tool: Tool) -> Result<Found> {
        let home = self.root.join("home");
        of(tool, &Surroundings { home, variables: &self.variables, root: self.root.clone(), links: Links::All })
    }

    /// Each index as host, `git` and setting, then what is left out.
    fn found(&self, tool: Tool) -> Vec<String> {
        let found = self.find(tool).unwrap();
        let git = |index: &Index| if index.git { " git" } else { "" };
        let indexes = found.indexes.iter().map(|index| format!("{}{}: {}", index.host, git(index), index.setting));
        let lines = indexes.chain(found.left_out.iter().map(|what| format!("left out: {what}")));
        lines.map(|line| line.replace(self.root.to_str().unwrap(), "")).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

#[test]
fn pip_reads_its_variables_and_files() {
    let machine = Machine::new("pip")
        .variable("PIP_INDEX_URL", "https://user:CANARY@variable.test:8443/simple/")
        .variable("PIP_EXTRA_INDEX_URL", "https://one.test/simple https://two.test/simple")
        .file("etc/xdg/pip/pip.conf", "[install]\nindex-url = https://xdg.test/\n")
        .file(
            "etc/pip.conf",
            "[global]\n; index-url = https://remark.test/\nindex_url: https://etc.test/\ntimeout = 5\n",
        )
        .file("home/.pip/pip.conf", "[global]\n--extra-index-url = https://legacy.test/\n")
        .file(
            "home/.config/pip/pip.conf",
            "[global]\nextra-index-url =\n    https://CANARY@first.test/\n  # remark\n\n    https://second.test/\n    \
             https://variable.test:8443/other\nno-index = true\n    https://none.test/\n[list]\nformat = columns\n",
        );
    assert_eq!(
        machine.found(Tool::Pip),
        [
            "variable.test:8443: the variable PIP_INDEX_URL",
            "one.test: the variable PIP_EXTRA_INDEX_URL",
            "two.test: the variable PIP_EXTRA_INDEX_URL",
            "xdg.test: index-url in /etc/xdg/pip/pip.conf",
            "etc.test: index-url in /etc/pip.conf",
            "legacy.test: extra-index-url in /home/.pip/pip.conf",
            "first.test: extra-index-url in /home/.config/pip/pip.conf",
            "second.test: extra-index-url in /home/.config/pip/pip.conf",
        ]
    );
    assert_eq!(machine.find(Tool::Pip).unwrap().files.len(), 4);
    let elsewhere = Machine::new("pip-elsewhere")
        .file("home/.config/pip/pip.conf", "[global]\nindex-url = https://unread.test/\n")
        .file("other/pip/pip.conf", "[global]\nindex-url = https://xdg-home.test/\n")
        .file("own.conf", "[global]\nindex-url = https://own.test/\n")
        .variable("XDG_CONFIG_HOME", "ROOT/other")
        .variable("PIP_CONFIG_FILE", "ROOT/own.conf");
    assert_eq!(
        elsewhere.found(Tool::Pip),
        ["xdg-home.test: index-url in /other/pip/pip.conf", "own.test: index-url in /own.conf"]
    );
    let none = Machine::new("pip-none").file("etc/pip.conf", "[global]\nindex-url = https://etc.test/\n");
    assert_eq!(none.variable("PIP_CONFIG_FILE", "/dev/null").found(Tool::Pip), Vec::<String>::new());
}

#[test]
fn npm_reads_its_variables_and_files() {
    let machine = Machine::new("npm")
        .variable("NPM_Config_registry", "https://variable.test/")
        .variable("HOST_OF_NPM", "canary.test")
        .file("usr/etc/npmrc", "registry=https://global.test/npm/\n")
        .file(
            "home/.npmrc",
            "; registry=https://remark.test/\n//user.test/:_authToken=CANARY\nregistry = \"https://user.test/\"\n\
             @scope:registry=https://CANARY:CANARY@scoped.test/\n@other:registry=https://${HOST_OF_NPM}:8443/x\n\
             @unset:registry=https://${NOT_SET_FOR_NPM}/\nregistry-of-mine=https://none.test/\n",
        );
    assert_eq!(
        machine.found(Tool::Npm),
        [
            "variable.test: the variable NPM_Config_registry",
            "global.test: registry in /usr/etc/npmrc",
            "user.test: registry in /home/.npmrc",
            "scoped.test: @scope:registry in /home/.npmrc",
            "left out: @other:registry in /home/.npmrc: its host cannot be permitted by name",
            "left out: @unset:registry in /home/.npmrc: its host cannot be permitted by name",
        ]
    );
    let named = Machine::new("npm-named")
        .file("home/.npmrc", "registry=https://unread.test/\n")
        .file("mine", "registry=https://mine.test/\n")
        .variable("npm_config_userconfig", "ROOT/mine");
    assert_eq!(named.found(Tool::Npm), ["mine.test: registry in /mine"]);
}

#[test]
fn cargo_reads_its_variables_and_files() {
    let machine = Machine::new("cargo")
        .variable("CARGO_REGISTRIES_MINE_INDEX", "sparse+https://variable.test/index/")
        .variable("CARGO_REGISTRIES_MINE_TOKEN", "CANARY")
        .file(
            "home/.cargo/config.toml",
            "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://mirror.test/\"\n\
             [source.vendored]\ndirectory = \"vendor\"\n[source.local]\nregistry = \"file:///srv/index\"\n\
             [registries.git]\nindex = \"https://CANARY@git.test/index.git\"\n\
             [registries.ssh]\nindex = \"ssh://git@ssh.test/index.git\"\n",
        );
    assert_eq!(
        machine.found(Tool::Cargo),
        [
            "variable.test: the variable CARGO_REGISTRIES_MINE_INDEX",
            "mirror.test: source.mirror.registry in /home/.cargo/config.toml",
            "git.test git: registries.git.index in /home/.cargo/config.toml",
            "left out: registries.ssh.index in /home/.cargo/config.toml: it is not https, which is all that a preset permits",
        ]
    );
    let home = Machine::new("cargo-home").file("own/config", "[registries.a]\nindex = \"https://old.test/\"\n");
    let home = home.variable("CARGO_HOME", "ROOT/own");
    assert_eq!(home.found(Tool::Cargo), ["old.test git: registries.a.index in /own/config"]);
}

/// The working directory belongs to what runs in the sandbox, and what is no index opens nothing.
#[test]
fn nothing_configured_is_nothing_found() {
    let machine = Machine::new("none").file("home/.cargo/config.toml", "[build]\njobs = 2\n");
    for tool in [Tool::Pip, Tool::Npm, Tool::Cargo] {
        assert_eq!(machine.found(tool), Vec::<String>::new());
    }
}

#[test]
fn values_are_read_as_clients_read_them() {
    let read = |value: &str| index(value, Tool::Pip, "x").map(|index| index.map(|index| index.host.to_string()));
    assert_eq!(read("HTTPS://A.Test./simple"), Ok(Some("a.test".to_owned())));
    assert_eq!(read("https://user:p@ss@a.test:8443?x@b.test"), Ok(Some("a.test:8443".to_owned())));
    assert_eq!(read("https://a.test\\@b.test/"), Ok(Some("a.test".to_owned())));
    assert_eq!(read("/srv/wheels"), Ok(None));
    assert_eq!(read("file:///srv/wheels"), Ok(None));
    for bad in ["https:///x", "https://localhost/simple", "https://*.test/", "https://a b/"] {
        assert_eq!(read(bad), Err("its host cannot be permitted by name".to_owned()), "{bad}");
    }
    for plain in ["http://a.test/", "git+ssh://a.test/"] {
        assert_eq!(read(plain), Err("it is not https, which is all that a preset permits".to_owned()), "{plain}");
    }
}

/// Neither the error nor anything else shows what a file holds.
#[test]
fn settings_that_cannot_be_read_stop() {
    let error = |machine: Machine, tool| {
        let error = format!("{:#}", machine.find(tool).unwrap_err());
        assert!(!error.contains("CANARY"), "{error}");
        error.replace(machine.root.to_str().unwrap(), "")
    };
    let broken = Machine::new("broken").file("home/.cargo/config.toml", "[registries.a]\ntoken = CANARY\n");
    assert_eq!(error(broken, Tool::Cargo), "the settings in /home/.cargo/config.toml are not valid TOML");
    let long = Machine::new("long").file("home/.npmrc", &"#".repeat((1 << 20) + 1));
    assert_eq!(error(long, Tool::Npm), "cannot read the settings in /home/.npmrc: longer than 1 MiB");
    let binary = Machine::new("binary");
    std::fs::write(binary.root.join("home/.npmrc"), b"registry=\xff").unwrap();
    assert_eq!(error(binary, Tool::Npm), "/home/.npmrc is not UTF-8");
    // Where a pipe or a directory stands, there are no settings.
    let other = Machine::new("other").file("home/.npmrc/x", "");
    assert_eq!(other.found(Tool::Npm), Vec::<String>::new());
}
