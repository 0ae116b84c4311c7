// Policy `images`: images come from known registries, and have a digest.
//
//   Pod, template ─▶ images of containers and volumes ─▶ images that the old object does not have ─▶ rules

import { policy, rule, target } from '@opgate/policy';
import type { Document, KubernetesObject, Operation, Report, Review, SettingsError } from '@opgate/policy';
import { hasDigest, isDomain, isFrom, isReference, repository } from './reference';

interface Settings {
  registries?: string[];
}

const apps = (kind: string, resource: string) => target({ groups: ['apps'], versions: ['v1'], resources: [resource], kind });
const batch = (kind: string, resource: string) => target({ groups: ['batch'], versions: ['v1'], resources: [resource], kind });

const targets = [
  // With the sub-resource that adds containers to a running Pod.
  target({ versions: ['v1'], resources: ['pods', 'pods/ephemeralcontainers'], kind: 'Pod' }),
  apps('Deployment', 'deployments'),
  apps('StatefulSet', 'statefulsets'),
  apps('DaemonSet', 'daemonsets'),
  apps('ReplicaSet', 'replicasets'),
  batch('Job', 'jobs'),
  batch('CronJob', 'cronjobs'),
];

const operations: Operation[] = ['create', 'update'];
const on = targets.map((target) => ({ target, operations }));

const isKnown = rule({
  id: 'IMG-1',
  name: 'known-image-registry',
  level: 'deny',
  title: 'an image comes from a known registry',
  docs: `
    The images of containers, init containers, ephemeral containers and image volumes come from one of
    the setting \`registries\`, or from below it. References are completed as container runtimes do:
    \`nginx\` is \`docker.io/library/nginx\`. \`quay.io/household\` is not in \`quay.io/house\`. The rule is
    off unless the setting is present. On UPDATE it evaluates only changed images, and containers and
    volumes with a new name.

    # Why

    Images from elsewhere are not scanned, and the owner of their name decides what runs.

    # Remediation

    Copy the image to a known registry, and name it there.

    # Accepted

    With \`registries: [quay.io/house]\`: \`image: quay.io/house/shop:v1\`

    # Rejected

    \`image: quay.io/household/shop:v1\`
  `,
  on,
  enabledBy: ['/registries'],
  sources: ['Kubernetes, Images, Image names'],
});

const isPinned = rule({
  id: 'IMG-2',
  name: 'image-digest',
  level: 'deny',
  title: 'an image has a digest',
  docs: `
    The images of containers, init containers, ephemeral containers and image volumes end with a
    digest: \`@sha256:\` and 64 hexadecimal digits. It may follow a tag. On UPDATE the rule
    evaluates only changed images, and containers and volumes with a new name.

    # Why

    A tag can move: the pod runs other code when it starts again, without a decision to do so.

    # Remediation

    Name the image by its digest: \`skopeo inspect docker://IMAGE\` prints it.

    # Accepted

    \`image: quay.io/house/shop:v1@sha256:…\`

    # Rejected

    \`image: quay.io/house/shop:v1\`
  `,
  on,
  sources: ['Kubernetes, Images, Image names'],
});

export default policy<Settings>({
  name: 'images',
  title: 'images come from known registries, and have a digest',
  rules: [isKnown, isPinned],
  routes: targets.map((on) => ({ on, evaluate })),
  settings: {
    registries: {
      description:
        'Registries from which images may come, each with its domain and with or without a path: quay.io/house, docker.io/library.',
      type: 'array',
      items: { type: 'string' },
    },
  },
  checkSettings,
});

function evaluate(review: Review<KubernetesObject, Settings>, report: Report): void {
  if (review.document === undefined || review.isExempt()) return;
  const at = specOf(review.request.kind.kind);
  const old = review.ratchetBase();
  const before = new Map(old && images(old, at).map(({ owner, image }) => [owner, image]));
  const registries = review.settings.registries ?? [];
  for (const { field, image, owner } of images(review.document, at)) {
    if (before.get(owner) === image) continue;
    const quoted = JSON.stringify(image);
    if (!isReference(image)) {
      report.add(isKnown, field, `image ${quoted} is no reference: invalid reference format`);
    } else if (!registries.some((registry) => isFrom(repository(image), registry))) {
      report.add(isKnown, field, `image ${quoted} is not from a known registry: use one of ${registries.join(', ')}`);
    }
    if (!hasDigest(image)) {
      report.add(isPinned, field, `image ${quoted} has no digest: add @sha256:… to it`);
    }
  }
}

/** The pointer of the pod spec in objects of a kind. */
function specOf(kind: string): string {
  if (kind === 'Pod') return '/spec';
  return kind === 'CronJob' ? '/spec/jobTemplate/spec/template/spec' : '/spec/template/spec';
}

interface Found {
  field: string;
  image: string;
  /** The list and the name of the container or volume, which do not depend on its index. */
  owner: string;
}

/** The images of containers of all kinds, and of volumes that are images. */
function images(object: Document, at: string): Found[] {
  const field = at.slice(1).replaceAll('/', '.');
  const found: Found[] = [];
  const add = (list: string, index: number, member: string, name: unknown, image: unknown) => {
    // A template may lack an image that a controller sets; otherwise the API server rejects the object.
    if (typeof image !== 'string' || image === '') return;
    found.push({ field: `${field}.${list}[${index}].${member}`, image, owner: JSON.stringify([list, name]) });
  };
  for (const list of ['containers', 'initContainers', 'ephemeralContainers']) {
    // opgate check reads files that no API server has validated: an element may have any type.
    const containers = object.list<{ name?: unknown; image?: unknown } | null>(`${at}/${list}`);
    for (const [index, container] of containers.entries()) {
      add(list, index, 'image', container?.name, container?.image);
    }
  }
  const volumes = object.list<{ name?: unknown; image?: { reference?: unknown } | null } | null>(`${at}/volumes`);
  for (const [index, volume] of volumes.entries()) {
    add('volumes', index, 'image.reference', volume?.name, volume?.image?.reference);
  }
  return found;
}

/** Checks beyond the schema. */
function checkSettings({ registries = [] }: Settings): SettingsError[] {
  return registries.flatMap((registry, index) => {
    const [first = '', ...path] = registry.split('/');
    const wrong = (message: string) => [{ pointer: `/registries/${index}`, message }];
    if (registry.endsWith('/')) return wrong('remove the slash at the end');
    if (!isDomain(first)) return wrong('write the domain, too: docker.io/library');
    if (registry.includes('@') || path.some((part) => part.includes(':'))) {
      return wrong('write a registry without tag and digest');
    }
    return [];
  });
}
