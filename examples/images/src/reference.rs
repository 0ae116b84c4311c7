//! References to images, as container runtimes complete them.

/// The repository with its domain, without tag and digest: `docker.io/library/nginx` of `nginx:1.27`.
pub(crate) fn repository(image: &str) -> String {
    let named = image.split_once('@').map_or(image, |(named, _)| named);
    let last = named.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    let colon = named.get(last..).and_then(|name| name.find(':'));
    let end = colon.map_or(named.len(), |colon| last.saturating_add(colon));
    let name = named.get(..end).unwrap_or(named);
    match name.split_once('/') {
        Some((domain, path)) if is_domain(domain) => match (domain, path) {
            ("docker.io" | "index.docker.io", path) => of_docker(path),
            (domain, path) => format!("{domain}/{path}"),
        },
        _ => of_docker(name),
    }
}

fn of_docker(path: &str) -> String {
    let library = if path.contains('/') { "" } else { "library/" };
    format!("docker.io/{library}{path}")
}

/// Whether the first part of a name is a domain, and not the first part of a path.
pub(crate) fn is_domain(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.chars().any(char::is_uppercase)
}

/// Whether a repository is a registry, or a part of it.
pub(crate) fn is_from(repository: &str, registry: &str) -> bool {
    let rest = repository.strip_prefix(registry);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::repository;

    #[test]
    fn names_are_complete() {
        let cases = [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1.27", "docker.io/library/nginx"),
            ("house/nginx", "docker.io/house/nginx"),
            ("docker.io/nginx", "docker.io/library/nginx"),
            ("index.docker.io/house/a", "docker.io/house/a"),
            ("quay.io/house/a:v1@sha256:00", "quay.io/house/a"),
            ("localhost/a", "localhost/a"),
            ("localhost:5000/a:v1", "localhost:5000/a"),
            ("registry:5000/house/a", "registry:5000/house/a"),
            ("registry/house/a", "docker.io/registry/house/a"),
            ("[fd00::1]:5000/a", "[fd00::1]:5000/a"),
        ];
        for (image, complete) in cases {
            assert_eq!(repository(image), complete, "{image}");
        }
    }
}
