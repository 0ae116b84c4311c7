// `npm pack`: copies the contract and the licence into the package. The repository also has this copy of the contract, for
// `npm install --install-links` of this directory, which runs no script of it.

import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
mkdirSync(join(here, 'wit'), { recursive: true });
copyFileSync(join(here, '..', '..', 'wit', 'policy.wit'), join(here, 'wit', 'policy.wit'));
copyFileSync(join(here, '..', '..', 'LICENSE'), join(here, 'LICENSE'));
