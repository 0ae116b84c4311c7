/**
 * Write admission policies for opgate in TypeScript and JavaScript.
 *
 * The default export of the module is the policy: `export default policy({…})`. Names and meanings are those of the
 * contract, `wit/policy.wit`.
 */

/** What the API request does. A PATCH arrives as `create` or `update`. */
export type Operation = 'create' | 'update' | 'delete' | 'connect';
/** What a violation does: deny the request, or allow it with a warning. */
export type Level = 'warn' | 'deny';
/** The type of the value at a pointer. */
export type Kind = 'missing' | 'null' | 'boolean' | 'number' | 'text' | 'list' | 'object';

/** Any JSON value. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

/** A Kubernetes object. For a more exact type, name it: `Review<Pod>`. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: {
    name?: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    [member: string]: Json;
  };
  [member: string]: Json;
}

/** For example `core.rukpak.io`, `v1alpha1`, `Bundle`. The core group is the empty text. */
export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** For example `core.rukpak.io`, `v1alpha1`, `bundles`. The core group is the empty text. */
export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

/** The user who sent the request, as the API server authenticated them. */
export interface UserInfo {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
}

/** A text that the settings may name: at the JSON pointer, or else the default. */
export interface Setting {
  pointer: string;
  default: string;
}

/** Names by pattern: one of `include` fits, or it is empty, and none of `exclude` fits. `*` is any characters. */
export interface NamePatterns {
  include?: string[];
  exclude?: string[];
}

/** A label selector of Kubernetes. */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist'; values?: string[] }[];
}

/** Requests for one kind of object. Every list must match; `*` in a list matches all. */
export interface TargetDeclaration {
  /** API groups; `['']`, the core group, unless set. */
  groups?: string[];
  versions: string[];
  /** Plural, lower case; `bundles/status` for a sub-resource. */
  resources: string[];
  /** For people: `Bundle`. */
  kind: string;
  /** Only in this namespace. */
  namespace?: Setting;
  /** Only in namespaces with these names. */
  namespaces?: NamePatterns;
  /** Only objects with these names. */
  names?: NamePatterns;
  /** The API server may admit these requests while the webhook is unavailable, unless the configuration sets one of their rules to deny. */
  advisory?: boolean;
  /** Conditions in CEL by name, for the webhook configuration only: the policy must not rely on them. */
  conditions?: Record<string, string>;
  /** Label selector for namespaces, for the webhook configuration. */
  namespaceSelector?: LabelSelector | string;
  /** Settings (JSON pointers) of which one must be present and not `false`. */
  enabledBy?: string[];
}

/** A declared target. */
export interface Target {
  readonly kind: string;
  readonly groups: string[];
  readonly versions: string[];
  readonly resources: string[];
}

/** Declares the requests for one kind of object. Rules and routes refer to the same target. */
export function target(declaration: TargetDeclaration): Target;
/** A kind of document that opgate creates from files, in the group `opgate.dev`. */
export function fileTarget(kind: string, resources: string[]): Target;

/** Objects of the cluster that rules need. */
export interface ReadDeclaration {
  /** API group; the core group unless set. */
  group?: string;
  version: string;
  /** Plural, lower case. */
  resource: string;
  /** JSON pointers of the fields that the policy reads; `*` is every element or member. Name, namespace, uid and labels are always available. */
  fields?: string[];
  /** JSON pointers of objects of which the host keeps only the names of the members. */
  keys?: string[];
  /** Label selector: the host does not read other objects. */
  labelSelector?: LabelSelector | string;
  /** Only in this namespace. */
  namespace?: Setting;
  /** Values by which the policy finds objects. */
  indexes?: { name: string; field: string; separator?: string }[];
  /** Settings (JSON pointers) for objects that the server reads only if one of them is present and not `false`. */
  enabledBy?: string[];
}

/** A condition on an index: one of these values or, with `includeMissing`, no value. */
export interface IndexMatch {
  index: string;
  values: string[];
  includeMissing?: boolean;
}

/** Selects objects. All conditions that are set must hold. */
export interface Query {
  namespace?: string;
  labelSelector?: LabelSelector | string;
  /** Conditions on indexes. */
  matches?: IndexMatch[];
}

/** Namespace (empty for a cluster-scoped object) and name. */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** Cluster objects. Every method throws a ReadError if there is no answer: call it in `report.orSkip`. */
export interface ClusterRead {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  /** One object; null if it does not exist. The namespace is `''` for cluster-scoped objects. */
  get(namespace: string, name: string): Document | null;
  /** The objects that match, in byte order of namespace and name. */
  list(query?: Query): Generator<Document, void, undefined>;
  /** Namespaces and names of the objects that match; cheaper than `list`. */
  names(query?: Query): ObjectName[];
  /** Whether any object matches. */
  any(query?: Query): boolean;
}

/** Declares objects of the cluster that rules need. */
export function read(declaration: ReadDeclaration): ClusterRead;

/** The reason why a query has no answer. */
export class ReadError extends Error {
  /** `no-cluster`: there is no cluster state to query. `invalid`: a selector is invalid. `unavailable`: the message is the reason. */
  readonly tag: 'no-cluster' | 'invalid' | 'unavailable';
}

/** The first objects of a resource, whole, for rules with `samples: true`. Throws a ReadError if there is no answer. */
export function sample(resource: GroupVersionResource, limit?: number): { objects: Document[]; complete: boolean };

/** A rule: a requirement, and the requests to which it applies. */
export interface RuleDeclaration {
  /** Letters, digits, `-` and `.`, at most 40: `IMG-1`. */
  id: string;
  /** In kebab case, at most 50 characters, unique in the policy: `image-digest`. */
  name?: string;
  /** The level of violations, unless the configuration sets one. */
  level: Level;
  /** The requirement, in one sentence without a full stop. */
  title: string;
  /** The documentation of the rule, Markdown, with the headings `# Why`, `# Remediation`, `# Accepted` and `# Rejected`. */
  docs?: string;
  on: { target: Target; operations: Operation[] }[];
  /** Objects of the cluster that the rule needs. */
  reads?: ClusterRead[];
  /** The rule reads custom resources of any kind, with `sample`. */
  samples?: boolean;
  /** The rule is off until one of these settings (JSON pointers) is present and not `false`, or has a configured level. */
  enabledBy?: string[];
  /** Settings (JSON pointers) that make a rule of level `warn` deny, if they are `true` or `deny`. */
  deniesWith?: string[];
  /** The setting `exempt` does not apply to the rule. */
  noExemptions?: boolean;
  /** The rule may be skipped for another reason than a missing cluster. */
  maySkip?: boolean;
  /** Where the requirement is documented. */
  sources: string[];
}

/** A declared rule. */
export interface Rule {
  readonly id: string;
  readonly name: string;
  readonly level: Level;
  readonly title: string;
  readonly docs: string;
  readonly sources: readonly string[];
}

/** Declares a rule. */
export function rule(declaration: RuleDeclaration): Rule;

/** An error in the settings that the schema cannot find. */
export interface SettingsError {
  /** JSON pointer into the settings. */
  pointer: string;
  message: string;
}

/** A policy: its rules, and the functions that evaluate requests. `S` is the type of its settings. */
export interface PolicyDeclaration<S = Json> {
  /** Lower case letters, digits and `-`, at most 40. */
  name: string;
  /** That of package.json unless set. */
  version?: string;
  /** One sentence about the policy. */
  title: string;
  rules: Rule[];
  /** The function that evaluates the requests of each target; at most 64. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  routes: { on: Target; evaluate: (review: Review<any, S>, report: Report) => void }[];
  /** JSON Schema (2020-12, without `$ref`) of each setting, by name. */
  settings?: Record<string, Json>;
  /** Checks beyond the schema. Called once, when the policy is loaded. */
  checkSettings?: (settings: S) => SettingsError[] | void;
}

/** A declared policy. */
export interface Policy {
  readonly name: string;
  readonly version?: string;
  readonly title: string;
  readonly rules: readonly Rule[];
}

/** Declares the policy. Export it by default. */
export function policy<S = Json>(declaration: PolicyDeclaration<S>): Policy;

/** A JSON document that the host keeps. A pointer (RFC 6901) begins with a slash, or is `''` for the document itself. */
export class Document<T = Json> {
  /** A document from JSON text. Throws a SyntaxError if the text is not JSON. */
  static parse(json: string): Document;
  /** The whole document as a plain value, copied and parsed at the first use. */
  readonly value: T;
  /** The plain value at a pointer; undefined if there is none. */
  json(pointer: string): Json;
  kind(pointer: string): Kind;
  /** Whether there is a value other than `null`. */
  has(pointer: string): boolean;
  text(pointer: string): string | undefined;
  boolean(pointer: string): boolean | undefined;
  /** The number, if it is an integer of 64 bits. */
  integer(pointer: string): bigint | undefined;
  number(pointer: string): number | undefined;
  /** Elements of a list or members of an object. */
  length(pointer: string): number | undefined;
  /** Names of an object's members, in byte order. */
  keys(pointer: string): string[];
  /** The texts in a list. */
  texts(pointer: string): string[];
  /** The elements of a list as plain values of any type; none for any other value. */
  list<E = Json>(pointer: string): E[];
  /** The part at a pointer as a document. */
  at(pointer: string): Document | undefined;
  /**
   * The label selector at a pointer, such as `/spec/selector`; undefined if there is none, or `null`. An empty selector
   * matches all objects. Throws a SelectorError if an API server rejects it.
   */
  selector(pointer: string): Selector | undefined;
  /** The selector of a map of labels, such as `/spec/selector` of a Service; undefined if it is missing or empty, and so selects nothing. */
  mapSelector(pointer: string): Selector | undefined;
  /** Whether the labels at a pointer, such as `/metadata/labels`, match a selector. */
  matches(pointer: string, selector: Selector): boolean;
  /** The JSON text as it was received. */
  raw(pointer: string): Uint8Array | undefined;
  /** The number of bytes that `raw` would return, without a copy. */
  size(pointer: string): number | undefined;
  /** Whether two values are equal for Kubernetes whatever their Go type is. */
  equal(pointer: string, other: Document, otherPointer: string): boolean;
}

/** A label selector that Kubernetes accepts. */
export class Selector {
  private constructor();
  /** The selector of a plain value; undefined for `undefined` and `null`. Throws a SelectorError if an API server rejects it. */
  static from(value: Json): Selector | undefined;
  /** The selector of a map of labels, as of a Service; undefined if it is missing or empty, and so selects nothing. */
  static fromMap(labels: Json): Selector | undefined;
  /** Whether it has no requirements, and so matches all objects. */
  readonly isEmpty: boolean;
  /** Whether an object with these labels is selected. */
  matches(labels: Record<string, string> | null | undefined): boolean;
  /** The notation of `kubectl -l`. */
  toString(): string;
}

/** A selector that an API server rejects: the reason, in the words of Kubernetes. */
export class SelectorError extends Error {}

/** The Go type behind a JSON value, to compare values as Kubernetes does. */
export class Shape {
  private constructor();
  /** A text, a boolean or a number: missing is the same as the zero value. */
  static readonly scalar: Shape;
  /** A struct by value, with the shapes of its fields by JSON name. */
  static struct(fields: Record<string, Shape>): Shape;
  /** A pointer to a struct: missing is not the same as `{}`. */
  static pointer(fields: Record<string, Shape>): Shape;
  /** A list: missing is the same as `[]`, and the order matters. */
  static list(item: Shape): Shape;
  /** Whether the values at one pointer in two documents are semantically equal. */
  equal(left: Document, right: Document, pointer: string): boolean;
}

/** Specs of pods, wherever an object has them. */
export namespace pods {
  /** The spec of a Pod, or of the pods that a template creates. */
  interface PodSpec {
    /** Name of the object, or of the deployment of a ClusterServiceVersion. */
    readonly name: string;
    /** The path as a JSON pointer, and as Kubernetes writes it. */
    readonly pointer: string;
    readonly field: string;
    /** The containers, init containers and ephemeral containers. `document` is the one from which the spec is. */
    containers(document: Document): Generator<Container, void, undefined>;
  }
  interface Container {
    readonly spec: PodSpec;
    readonly list: 'containers' | 'initContainers' | 'ephemeralContainers';
    /** Its index in the list. */
    readonly index: number;
    readonly pointer: string;
    readonly field: string;
    /** Whether it is among `containers`. */
    readonly isRegular: boolean;
    /** The container as a plain value; `{}` if it is no object. */
    readonly value: Json;
  }
  /**
   * The spec of a Pod, or of the template of a Deployment, DaemonSet, StatefulSet, ReplicaSet, ReplicationController, Job,
   * CronJob or PodTemplate; undefined for other kinds.
   */
  function inObject(document: Document, kind: string): PodSpec | undefined;
  /** The templates of the deployments of a ClusterServiceVersion. */
  function inCsv(document: Document): PodSpec[];
}

/** The request, without its objects. The first read of each part is a call of the host. */
export interface Request {
  readonly operation: Operation;
  readonly uid: string;
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  /** `status`, `scale`, … or empty. */
  readonly subResource: string;
  readonly name: string;
  /** Empty for a cluster-scoped object. */
  readonly namespace: string;
  readonly user: UserInfo;
  readonly dryRun: boolean;
  /** Whether the host uses fixes: for files it does, for requests of an API server it does not. */
  readonly wantsFixes: boolean;
}

/** A request with its objects and the settings. `T` is the type of the object, `S` that of the settings. */
export interface Review<T = KubernetesObject, S = Json> {
  readonly request: Request;
  readonly operation: Operation;
  /** The object as a plain value; undefined on DELETE. */
  readonly object: T | undefined;
  /** The object before; undefined on CREATE and CONNECT. */
  readonly oldObject: T | undefined;
  /** The object by pointer. */
  readonly document: Document<T> | undefined;
  /** The object before, by pointer. */
  readonly oldDocument: Document<T> | undefined;
  /** The settings as a plain value; `{}` if the configuration sets none. */
  readonly settings: S;
  /** The settings by pointer. */
  readonly settingsDocument: Document<S>;
  /** Name of the object. */
  readonly name: string;
  readonly namespace: string;
  /** Whether the setting `exempt` names the user. The report ignores violations by such users; a policy that checks first saves the work. */
  isExempt(): boolean;
  /** Whether the request is an UPDATE of an object. */
  isUpdate(): boolean;
  /** The document before an UPDATE. */
  oldOfUpdate(): Document<T> | undefined;
  /** The document before an UPDATE, if the report omits violations in unchanged fields. */
  ratchetBase(): Document<T> | undefined;
  /**
   * Whether a rule must evaluate the value at the pointer: always on CREATE, on UPDATE only if it changed. With a shape,
   * values are compared as their Go types are.
   */
  touches(pointer: string, shape?: Shape): boolean;
  /** Whether the object is a manifest in a file: `opgate check` sent the request, and not in an audit. */
  isFromFile(): boolean;
  /** Whether the object is a manifest of a bundle in files. */
  isFromBundle(): boolean;
  /** Whether an audit evaluates an object that a cluster stores: its author is unknown. */
  isAudit(): boolean;
}

/**
 * The changes of an object after which it does not violate a rule, for `opgate check --fix` and for editors. Pointers
 * are relative to the object of the review, and the changes apply one after another. The host ignores a fix that is
 * not valid: it never changes the decision.
 */
export class Fix {
  /** A fix that needs no review. The title says what it does, as an imperative. */
  static safe(title: string): Fix;
  /** A fix that a person needs to review: it changes what the object does, or guesses a value. */
  static needsReview(title: string): Fix;
  /** Replaces or adds a value. Objects on the way that are missing are created. */
  set(pointer: string, value: Json): Fix;
  /** Inserts an element in a list: before the one at the pointer, or at the end with `/list/-`. */
  insert(pointer: string, value: Json): Fix;
  /** Removes a member or an element. */
  remove(pointer: string): Fix;
  /** Renames a member, in its place. */
  renameKey(pointer: string, name: string): Fix;
  /** Moves a file of a bundle (`/spec/files/3`), or one of its documents, to another path in the directory. */
  moveFile(pointer: string, path: string): Fix;
}

/** The violations of a review. */
export interface Report {
  /** Adds a violation: the field as Kubernetes writes it, and one sentence for the person who sent the request. */
  add(rule: Rule, field: string, message: string, fix?: Fix): void;
  /** Adds a violation with another level than that of the rule; a configured level wins. */
  addAs(level: Level, rule: Rule, field: string, message: string, fix?: Fix): void;
  /** Adds a violation for each of the things. `texts` is called only for those that fit in a verdict. */
  addEach<T>(rule: Rule, things: Iterable<T>, texts: (thing: T) => [field: string, message: string]): void;
  /** Counts violations without their texts. */
  addCount(rule: Rule, count: number): void;
  /** Records that the rule could not be evaluated, with the reason. */
  skip(rule: Rule, field: string, reason: string): void;
  /** Records that the rule could only be evaluated in part, with the reason. */
  skipPart(rule: Rule, field: string, reason: string): void;
  /** The result of `query`. If the query has no answer, skips the rules and returns undefined. */
  orSkip<T>(rules: Rule[], needed: string, query: () => T): T | undefined;
  /** Adds a word to an audit annotation. */
  annotate(key: string, word: string): void;
  /** Reason of the denial, `Forbidden` unless set. */
  setReason(reason: string): void;
  isOn(rule: Rule): boolean;
  denies(rule: Rule): boolean;
  denials(rule: Rule): number;
}

/** Lines for the log of the server, which keeps 64 of each call. */
export const log: Record<'debug' | 'info' | 'warn' | 'error', (...parts: unknown[]) => void>;
/** Escapes a name for use as a token of a JSON pointer. */
export function escape(name: string): string;

declare global {
  /** Writes to the log of the server. In tests it is that of Node.js. */
  interface Console {
    debug(...parts: any[]): void;
    error(...parts: any[]): void;
    info(...parts: any[]): void;
    log(...parts: any[]): void;
    trace(...parts: any[]): void;
    warn(...parts: any[]): void;
  }
  var console: Console;
}
