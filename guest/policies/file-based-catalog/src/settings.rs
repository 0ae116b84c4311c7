//! The settings under `catalog`.

use opgate_sdk::Document;

/// The values of the settings.
pub(crate) struct Settings {
    /// FBC-18 evaluates only the last channel of a package.
    pub(crate) last_channel_only: bool,
    /// FBC-27 accepts a bundle without image that contains its objects.
    pub(crate) object_only_bundles: bool,
    /// Further schemas of OLM, in addition to the known ones.
    pub(crate) reserved_schemas: Vec<String>,
    /// Further types of properties of OLM, in addition to the known ones.
    pub(crate) reserved_properties: Vec<String>,
}

impl Settings {
    pub(crate) fn of(settings: &Document) -> Self {
        let upstream = settings.text_or_empty("/profile") == "upstream";
        let entries = settings.text("/catalog/entriesCheck");
        let object_only = settings.boolean("/catalog/allowObjectOnlyBundles");
        Self {
            last_channel_only: entries.map_or(upstream, |check| check == "upstream"),
            object_only_bundles: object_only.unwrap_or(upstream),
            reserved_schemas: settings.texts("/catalog/reservedSchemas"),
            reserved_properties: settings.texts("/catalog/reservedProperties"),
        }
    }
}
