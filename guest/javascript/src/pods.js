// Specs of pods, wherever an object has them, and the containers in these. The Rust SDK does the same in
// guest/sdk/src/pods.rs.
//
//   ClusterServiceVersion ─▶ inCsv ───▶ one PodSpec for each deployment ─┐
//   Pod, workload ─────────▶ inObject ▶ one PodSpec ─────────────────────┴─▶ containers(document) ─▶ Container

const DEPLOYMENTS = '/spec/install/spec/deployments';
const TEMPLATE = '/spec/template/spec';
const LISTS = ['containers', 'initContainers', 'ephemeralContainers'];
const POINTERS = {
  Pod: '/spec',
  Deployment: TEMPLATE,
  DaemonSet: TEMPLATE,
  StatefulSet: TEMPLATE,
  ReplicaSet: TEMPLATE,
  ReplicationController: TEMPLATE,
  Job: TEMPLATE,
  CronJob: '/spec/jobTemplate/spec/template/spec',
  PodTemplate: '/template/spec',
};

/** The spec of a Pod, or of the pods that a template creates. */
export class PodSpec {
  constructor(name, pointer, field) {
    this.name = name;
    this.pointer = pointer;
    this.field = field;
    Object.freeze(this);
  }

  /** The containers, init containers and ephemeral containers of the document from which the spec is. */
  *containers(document) {
    for (const list of LISTS) {
      for (const [index, value] of document.list(`${this.pointer}/${list}`).entries()) {
        const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
        yield {
          spec: this,
          list,
          index,
          pointer: `${this.pointer}/${list}/${index}`,
          field: `${this.field}.${list}[${index}]`,
          isRegular: list === 'containers',
          value: isObject ? value : {},
        };
      }
    }
  }
}

/** The spec of a Pod, or of the template of a workload; undefined for other kinds. */
export function inObject(document, kind) {
  if (!Object.hasOwn(POINTERS, kind)) return undefined;
  const pointer = POINTERS[kind];
  return new PodSpec(document.text('/metadata/name') ?? '', pointer, pointer.slice(1).replaceAll('/', '.'));
}

/** The templates of the deployments of a ClusterServiceVersion. */
export function inCsv(document) {
  return document.list(DEPLOYMENTS).map((deployment, index) => {
    const name = typeof deployment?.name === 'string' ? deployment.name : '';
    const field = `spec.install.spec.deployments[${index}].spec.template.spec`;
    return new PodSpec(name, `${DEPLOYMENTS}/${index}${TEMPLATE}`, field);
  });
}
