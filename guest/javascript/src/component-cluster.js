// The imports of the world `cluster-policy`. Importing this module connects them.

import { get, list, names, sample } from 'opgate:policy/cluster@0.7.0';

import { host } from './host.js';

Object.assign(host, { get, list, names, sample });
