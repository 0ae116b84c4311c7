//! The rules, with their levels and sources. What each one says in full is in the rule's module:
//!
//! ```text
//! any blob       blob, properties   FBC-01 to 03, 07, 08, 40, 43    what every blob must be
//! olm.package    package            FBC-09, 10, 12
//! olm.channel    channel            FBC-13, 15 to 17, 22, 25        each by itself
//!                graph              FBC-19 to 21, 23, 24            where the entries lead
//! olm.bundle     bundle, objects    FBC-26 to 29, 33 to 39, 41, 42
//! together       catalog            FBC-04 to 06, 11, 14, 18, 30 to 32
//! folder         files              FBC-43, 44
//! published      baseline           FBC-45, 46
//! deprecations   deprecations       FBC-47 to 53
//! ```

use opgate_sdk::Operation::{Create, Update};
use opgate_sdk::{Operation, Rule};

const CATALOG: &[&str] = &["FileBasedCatalog"];
const BOTH: &[Operation] = &[Create, Update];

/// Every rule of the policy, in the order of their ids.
pub const RULES: &[Rule] = &[
    Rule {
        id: "FBC-01",
        title: "every blob has a schema",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L660-668, L589, L689; OCP 4.15 L500-539; OKD L161-174; operator-registry alpha/declcfg/load.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-02",
        title: "schema, package and name of a blob are strings; a package that is given is not empty",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L670-671; OCP 4.15 L500-539; OKD L164-165; operator-registry alpha/declcfg/declcfg.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-03",
        title: "properties are a list of items with a type and a value",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L673-683, L796-802, L821; OCP 4.15 L500-539, L621-651; OKD L166-174, L239-244",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-04",
        title: "each package has one olm.package blob, and no channel or bundle is left over without one",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L577, L696, L8655; OCP 4.15 L437-439, L531-533; OKD L127, L180-183; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-05",
        title: "each package has a channel",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L696; OCP 4.15 L533; OKD L180-183; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-06",
        title: "each package has a bundle",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L696; OCP 4.15 L533; OKD L180-183",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-07",
        title: "schemas that start with olm. are OLM's",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L693-700; OCP 4.15 L531-539, L653-691; OKD L176-184",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-08",
        title: "a custom schema has a prefix such as a domain",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L700; OCP 4.15 L539",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-09",
        title: "the name of a package is a DNS-1123 label",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L711-715; OCP 4.15 L541-571; OKD L188-190; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-10",
        title: "a package names its default channel",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L720-721; OCP 4.15 L562, L21870, L21926-21930; OKD L194-195; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-11",
        title: "the default channel of a package is one of its channels",
        kinds: CATALOG,
        operations: BOTH,
        source: "operator-registry alpha/declcfg/declcfg_to_model.go, alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-12",
        title: "the description of a package is a text, its icon has data and a media type",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L717-727; OCP 4.15 L541-571; OKD L191-200; operator-registry alpha/declcfg/load.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-13",
        title: "a channel has a name, a package and a list of entries",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L746-751; OCP 4.15 L573-619; OKD L208-213; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-14",
        title: "the name of a channel is unique in its package",
        kinds: CATALOG,
        operations: BOTH,
        source: "operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-15",
        title: "a channel has an entry",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L8514-8516; OCP 4.15 L6003-6007; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-16",
        title: "the members of an entry are non-empty strings",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L753-770; OCP 4.15 L573-619; OKD L214-228; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-17",
        title: "a bundle has one entry in a channel",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L740; OCP 4.15 L577; OKD L204-205; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-18",
        title: "every entry of a channel is a bundle of the package",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L743, L754-765, L2546; OCP 4.15 L579, L592-604; OKD L206, L215-224; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-19",
        title: "a channel has one head",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L743, L2384, L2436-2468; OCP 4.15 L579, L1742-1850; OKD L206; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-20",
        title: "the chain of replaced bundles has no cycle",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L743; operator-registry alpha/model/model.go, alpha/model/model_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-21",
        title: "no entry of a channel is stranded",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L743, L2462-2465, L8651; operator-registry alpha/model/model.go, alpha/model/model_test.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-22",
        title: "a skipRange is a range of semantic versions",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L767-769; OCP 4.15 L606-608; OKD L225-227; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-23",
        title: "an entry with a skipRange also replaces the version before",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L773-778, L8666-8680; OCP 4.15 L615-619",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-24",
        title: "the latest patch release of a minor version replaces the earlier ones",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L2359, L2524, L2543; OCP 4.15 L1742-1850",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-25",
        title: "a period stands between package and version in the name of an entry",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L8527-8538, L7142, L7376-7379; OCP 4.15 L6005-6022",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-26",
        title: "a bundle has a package and a name",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L787-790; OCP 4.15 L621-651, L21880-21898; OKD L232-235; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-27",
        title: "a bundle has an image",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L791-792; OCP 4.15 L630-631; OKD L236-237; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-28",
        title: "images are image references",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L8685, L8709-8711; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-29",
        title: "related images have an image, and no empty name",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L793, L804-811; OCP 4.15 L632-650; OKD L237-251",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-30",
        title: "the name of a bundle is unique in its package",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L577; OCP 4.15 L437-439; OKD L127; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-31",
        title: "every bundle is an entry of a channel",
        kinds: CATALOG,
        operations: BOTH,
        source: "operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-32",
        title: "the version of a bundle is unique in its package",
        kinds: CATALOG,
        operations: BOTH,
        source: "operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-33",
        title: "a bundle has one olm.package property",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L831, L2613-2617; OCP 4.15 L728-745; OKD L257-261; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-34",
        title: "the olm.package property names the package of the bundle",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L831, L837; OCP 4.15 L730; OKD L258-260; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-35",
        title: "the version of a bundle is a strict semantic version",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L831, L838; OCP 4.15 L730; OKD L260-268; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-36",
        title: "a release fits the name and the version of its bundle",
        kinds: CATALOG,
        operations: BOTH,
        source: "operator-registry alpha/model/versionrelease.go, alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-37",
        title: "olm.gvk and olm.gvk.required have group, version and kind",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L849-857, L886-894; OCP 4.15 L726-803; OKD L270-280, L292-302",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-38",
        title: "olm.package.required has a package and a range of versions",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L868-875; OCP 4.15 L726-803; OKD L281-291",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-39",
        title: "there is one olm.gvk property for each provided API",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L2613-2621; OCP 4.15 L1886-1921",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-40",
        title: "types of properties that start with olm. are OLM's",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L824, L2633, L8703, L21715; OCP 4.15 L726, L21717; OKD L255-256",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-41",
        title: "objects in a bundle are base64 of JSON or YAML objects",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L8703-8708; operator-registry alpha/declcfg/load.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-42",
        title: "the media type of a bundle is a known one",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L21717, L21893-21895, L21944-21946",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-43",
        title: "every file of a catalog loads",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L613-632, L638-647; OCP 4.15 L463-493; OKD L134-156; operator-registry alpha/declcfg/load.go, alpha/declcfg/declcfg.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-44",
        title: "each package has a directory of its own",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.12 L632-652; OCP 4.15 L463-493; OKD L146-157",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-45",
        title: "every published bundle has an update path to a channel head",
        kinds: CATALOG,
        operations: &[Update],
        source: "OCP 4.12 L971, L2459-2468, L8651; OCP 4.15 L863-872, L6117-6119; OKD L328-329",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-46",
        title: "a published bundle does not change",
        kinds: CATALOG,
        operations: &[Update],
        source: "OCP 4.12 L557-563, L968-980; OCP 4.15 L863-872; OKD L116-119, L328-337",
        ..Rule::WARN
    },
    Rule {
        id: "FBC-47",
        title: "deprecations name a package of the catalog, and have no name of their own",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L653-695; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-48",
        title: "a package has one olm.deprecations blob",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L695; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-49",
        title: "deprecations refer to packages, channels and bundles, to each once",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L657-664, L705; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-50",
        title: "a deprecation of the package has no name",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L696; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-51",
        title: "deprecated channels and bundles exist",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L698-699; operator-registry alpha/declcfg/declcfg_to_model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-52",
        title: "a deprecation has a message",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L697; operator-registry alpha/model/model.go",
        ..Rule::DENY
    },
    Rule {
        id: "FBC-53",
        title: "deprecations have an entry",
        kinds: CATALOG,
        operations: BOTH,
        source: "OCP 4.15 L657",
        ..Rule::WARN
    },
];
