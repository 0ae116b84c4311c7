// Policy `{{name}}`: images of Pods have a digest and come from known registries.

import { policy, read, rule, target } from '@opgate/policy';
import type { KubernetesObject, Operation, Report, Review, SettingsError } from '@opgate/policy';

interface Settings {
  registries?: string[];
}

const pod = target({ groups: [''], versions: ['v1'], resources: ['pods'], kind: 'Pod' });

const namespaces = read({ version: 'v1', resource: 'namespaces', fields: ['/metadata/annotations'] });

const operations: Operation[] = ['create', 'update'];

const hasDigest = rule({
  id: 'IMG-1',
  name: 'image-digest',
  level: 'deny',
  title: 'the image of a container has a digest',
  docs: `
    \`image\` of each container and init container contains a digest. On UPDATE the rule
    evaluates only changed images.

    # Why

    A tag can move: the same Pod runs other code tomorrow.

    # Remediation

    Name the image by its digest.

    # Accepted

    \`image: quay.io/house/a@sha256:…\`

    # Rejected

    \`image: quay.io/house/a:v1\`
  `,
  on: [{ target: pod, operations }],
  sources: ['house rules, section 3'],
});

const isKnown = rule({
  id: 'IMG-2',
  name: 'known-image-registry',
  level: 'deny',
  title: 'the image of a container comes from a known registry',
  docs: `
    \`image\` of each container and init container starts with one of the setting \`registries\`.

    # Why

    Images from elsewhere are not scanned.

    # Remediation

    Copy the image to a known registry, and name it there.

    # Accepted

    With \`registries: [quay.io/house]\`: \`image: quay.io/house/a@sha256:…\`

    # Rejected

    \`image: quay.io/other/a@sha256:…\`
  `,
  on: [{ target: pod, operations }],
  enabledBy: ['/registries'],
  sources: ['house rules, section 4'],
});

const isOfNamespace = rule({
  id: 'IMG-3',
  name: 'namespace-image-registry',
  level: 'deny',
  title: 'the image of a container comes from the registry of its namespace',
  docs: `
    If the Namespace of the Pod has the annotation \`house.example/registry\`, \`image\` of each
    container and init container starts with it.

    # Why

    A team pays for its own registry, and cleans up there.

    # Remediation

    Copy the image to the registry of the namespace, and name it there.

    # Accepted

    With the annotation \`house.example/registry: quay.io/team-a\`: \`image: quay.io/team-a/b@sha256:…\`

    # Rejected

    \`image: quay.io/house/a@sha256:…\`
  `,
  on: [{ target: pod, operations }],
  reads: [namespaces],
  sources: ['house rules, section 5'],
});

export default policy<Settings>({
  name: '{{name}}',
  title: 'images of Pods have a digest and come from known registries',
  rules: [hasDigest, isKnown, isOfNamespace],
  routes: [{ on: pod, evaluate }],
  settings: {
    registries: {
      description: 'Registries, with or without a path, from which images may come.',
      type: 'array',
      items: { type: 'string' },
    },
  },
  checkSettings,
});

function evaluate(review: Review<KubernetesObject, Settings>, report: Report): void {
  const images = touchedImages(review);
  if (images.length === 0) return;
  const registries = review.settings.registries ?? [];
  const { namespace } = review;
  const found = report.orSkip([isOfNamespace], 'Namespaces', () => namespaces.get('', namespace));
  const own = found?.text('/metadata/annotations/house.example~1registry');
  for (const { field, image } of images) {
    if (!image.includes('@')) {
      report.add(hasDigest, field, `${image} has no digest`);
    }
    if (!registries.some((registry) => image.startsWith(`${registry}/`))) {
      report.add(isKnown, field, `${image} is not from a known registry`);
    }
    if (own !== undefined && !image.startsWith(`${own}/`)) {
      report.add(isOfNamespace, field, `${image} is not from ${own}, as namespace ${namespace} demands`);
    }
  }
}

/** Fields and images that the request sets or changes. */
function touchedImages(review: Review<KubernetesObject, Settings>): { field: string; image: string }[] {
  const images: { field: string; image: string }[] = [];
  for (const list of ['initContainers', 'containers']) {
    // opgate check reads files that no API server has validated: an element may have any type.
    const containers = review.document?.list<{ image?: unknown } | null>(`/spec/${list}`) ?? [];
    for (const [index, container] of containers.entries()) {
      const image = container?.image;
      if (typeof image === 'string' && review.touches(`/spec/${list}/${index}/image`)) {
        images.push({ field: `spec.${list}[${index}].image`, image });
      }
    }
  }
  return images;
}

/** Checks beyond the schema. */
function checkSettings({ registries = [] }: Settings): SettingsError[] {
  return registries.flatMap((registry, index) =>
    registry.endsWith('/') ? [{ pointer: `/registries/${index}`, message: 'remove the slash at the end' }] : [],
  );
}
