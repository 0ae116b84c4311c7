// References to images, as container runtimes complete and check them.

/** Limits, because the time to check a reference grows with its length. */
const MAX_LENGTH = 4096;
const MAX_PATH_LENGTH = 255;

const COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const DOMAIN = /^(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(?::[0-9]*)?$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})$/;

interface Parts {
  /** The domain in the reference; undefined for a reference without one. */
  domain: string | undefined;
  path: string;
  tag: string | undefined;
  digest: string | undefined;
}

function parts(image: string): Parts {
  const [named = '', digest] = cut(image, '@');
  const last = named.lastIndexOf('/') + 1;
  const [end, tag] = cut(named.slice(last), ':');
  const name = named.slice(0, last) + end;
  const [first, rest] = cut(name, '/');
  return rest !== undefined && isDomain(first)
    ? { domain: first, path: rest, tag, digest }
    : { domain: undefined, path: name, tag, digest };
}

function cut(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Whether the first part of a name is a domain, and not the first part of a path. */
export function isDomain(part: string): boolean {
  return part === 'localhost' || /[.:A-Z]/.test(part);
}

/** Whether a text is a reference. Another text could look like an image of a known registry. */
export function isReference(image: string): boolean {
  if (image.length > MAX_LENGTH) return false;
  const { domain, path, tag, digest } = parts(image);
  return (
    (domain === undefined || DOMAIN.test(domain)) &&
    path.length <= MAX_PATH_LENGTH &&
    path.split('/').every((component) => COMPONENT.test(component)) &&
    (tag === undefined || TAG.test(tag)) &&
    (digest === undefined || /^[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,}$/.test(digest))
  );
}

/** The repository with its domain, without tag and digest: `docker.io/library/nginx` of `nginx:1.27`. */
export function repository(image: string): string {
  const { domain, path } = parts(image);
  if (domain !== undefined && domain !== 'docker.io' && domain !== 'index.docker.io') return `${domain}/${path}`;
  return `docker.io/${path.includes('/') ? '' : 'library/'}${path}`;
}

/** Whether a repository is a registry, or a part of it. */
export function isFrom(repository: string, registry: string): boolean {
  return repository === registry || repository.startsWith(`${registry}/`);
}

/** Whether there is a digest that a runtime compares with the pulled image. */
export function hasDigest(image: string): boolean {
  const { digest } = parts(image);
  return digest !== undefined && DIGEST.test(digest);
}
