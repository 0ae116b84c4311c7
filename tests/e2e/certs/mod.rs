//! `opgate certs`.

use crate::cli::{err, opgate, out};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn certificates_are_issued_checked_and_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| opgate(directory.path(), arguments);
    let issue = [
        "certs",
        "issue",
        "--out",
        "tls",
        "--service",
        "opgate-system/opgate",
        "--name",
        "10.0.0.1",
    ];
    let output = run(&issue);
    assert_eq!(
        (output.status.code(), out(&output).as_str()),
        (Some(0), "tls\n"),
        "{}",
        err(&output)
    );
    let mode = |file: &str| {
        std::fs::metadata(directory.path().join("tls").join(file)).unwrap().permissions().mode()
            & 0o777
    };
    assert_eq!(
        (mode("ca.key"), mode("tls.key"), mode("ca.crt"), mode("tls.crt")),
        (0o600, 0o600, 0o644, 0o644)
    );
    let check = |name: &str| run(&["certs", "check", "--tls-dir", "tls", "--name", name]);
    for (name, code) in
        [("opgate.opgate-system.svc", 0), ("10.0.0.1", 0), ("other.svc", 1), ("10.0.0.2", 1)]
    {
        let output = check(name);
        assert_eq!(output.status.code(), Some(code), "{name}: {}{}", out(&output), err(&output));
    }
    let read = |file: &str| std::fs::read(directory.path().join("tls").join(file)).unwrap();
    let (ca, certificate) = (read("ca.crt"), read("tls.crt"));
    assert_eq!(run(&issue).status.code(), Some(0));
    assert_eq!(read("ca.crt"), ca, "the CA stays");
    assert_ne!(read("tls.crt"), certificate);
    assert_eq!(check("10.0.0.1").status.code(), Some(0));
    assert_eq!(run(&[&issue[..], &["--new-ca"]].concat()).status.code(), Some(0));
    assert_ne!(read("ca.crt"), ca);
    let wrong = run(&["certs", "issue", "--out", "tls", "--name", "not a name"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("neither a DNS name nor an IP address"), "{}", err(&wrong));
    let key = directory.path().join("tls/tls.key");
    std::fs::copy(directory.path().join("tls/ca.key"), &key).unwrap();
    let output = run(&["certs", "check", "--tls-dir", "tls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("does not belong to the certificate in"), "{}", err(&output));
    let output = run(&["serve", "--tls-dir", "tls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&run(&["serve"])).contains("no serving certificate"));
}

/// The command writes the CA for clients to a separate directory, so that no serving certificate is
/// from a CA that authenticates clients.
#[test]
fn client_certificates_are_issued_by_a_separate_ca() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| opgate(directory.path(), arguments);
    let issue = ["certs", "issue", "--out", "clients", "--client", "api-server"];
    let output = run(&issue);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "clients\n"));
    assert!(err(&output).contains("issued for api-server by a new CA"), "{}", err(&output));
    let path = |file: &str| directory.path().join("clients").join(file);
    let ca = std::fs::read(path("ca.crt")).unwrap();
    assert_eq!(run(&issue).status.code(), Some(0));
    assert_eq!(std::fs::read(path("ca.crt")).unwrap(), ca, "the CA stays");
    let mode = std::fs::metadata(path("client.key")).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode, path("tls.crt").exists()), (0o600, false));
    // What a client has is no serving certificate.
    let pair = ["--tls-cert", "clients/client.crt", "--tls-key", "clients/client.key"];
    let check = run(&[&["certs", "check", "--ca", "clients/ca.crt"], &pair[..]].concat());
    assert_eq!(check.status.code(), Some(1), "{}", out(&check));
    let wrong = run(&["certs", "issue", "--out", "clients", "--client", "a", "--name", "b"]);
    assert_eq!(wrong.status.code(), Some(2));
    let wrong = run(&["certs", "issue", "--out", "clients", "--client", ""]);
    assert_eq!(wrong.status.code(), Some(2));
    // A server does not start with names and no CA, or without the CA that its flag names.
    assert_eq!(run(&["certs", "issue", "--out", "tls", "--name", "a"]).status.code(), Some(0));
    let serve = |arguments: &[&str]| run(&[&["serve", "--tls-dir", "tls"], arguments].concat());
    for (arguments, says) in [
        (&["--client-name", "api-server"][..], "--client-ca"),
        (&["--client-ca", "nothing.crt"], "nothing.crt: No such file"),
        (&["--client-ca", "tls/tls.crt"], "tls.crt: certificate 1: not the certificate of a CA"),
        (&["--client-ca", "clients/ca.crt", "--client-name", ""], "cannot be the name of a client"),
    ] {
        let output = serve(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(says), "{arguments:?}: {}", err(&output));
    }
}
