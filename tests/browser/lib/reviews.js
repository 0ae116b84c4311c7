// Reviews that the tests send.

// Creates a Bundle without an image, which rules deny.
export function deniedBundle(namespace, name, user = "jo") {
  const kind = { group: "core.rukpak.io", version: "v1alpha1", kind: "Bundle" };
  const resource = { group: "core.rukpak.io", version: "v1alpha1", resource: "bundles" };
  const request = {
    uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
    operation: "CREATE",
    kind,
    resource,
    requestKind: kind,
    requestResource: resource,
    namespace,
    name,
    userInfo: { username: user, groups: ["system:authenticated"] },
    object: {
      apiVersion: "core.rukpak.io/v1alpha1",
      kind: "Bundle",
      metadata: { name },
      spec: { provisionerClassName: "core-rukpak-io-plain", source: { type: "image" } },
    },
    dryRun: false,
  };
  return { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };
}

// Texts of tenants that must stay texts: markup, a script, characters that change directions and hide themselves.
export const HOSTILE_NAME = `<script>alert(1)</script><img src=x onerror=alert(2)>"'&\u202e\u200b\u001b[31m`;

// The manifest of a Bundle without an image: the violation is at line 7, column 3.
export const DENIED_MANIFEST = `apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: my-bundle
spec:
  provisionerClassName: core-rukpak-io-plain
  source:
    type: image
`;
