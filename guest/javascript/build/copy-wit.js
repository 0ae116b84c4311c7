// `npm pack`: the package carries a copy of the contract. The repository has one.

import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = join(dirname(fileURLToPath(import.meta.url)), '..');
mkdirSync(join(here, 'wit'), { recursive: true });
copyFileSync(join(here, '..', '..', 'wit', 'policy.wit'), join(here, 'wit', 'policy.wit'));
copyFileSync(join(here, '..', '..', 'LICENSE'), join(here, 'LICENSE'));
