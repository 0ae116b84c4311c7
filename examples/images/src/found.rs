//! The images of a pod.

use opgate_sdk::Document;
use opgate_sdk::pods::PodSpec;

/// An image, and where it is.
pub(crate) struct Found {
    pub(crate) field: String,
    pub(crate) image: String,
    /// What it is the image of, wherever that stands in its list: the list and the name.
    pub(crate) owner: (&'static str, String),
}

/// Those of containers of all kinds, and of volumes that are images.
pub(crate) fn images(object: &Document, spec: &PodSpec) -> Vec<Found> {
    let mut found = Vec::new();
    spec.each(object, &["/image", "/name"], |container| {
        // Without an image it is a template for somebody who sets it, or the API server says so.
        if let Some(image) = container.row.text(0).filter(|image| !image.is_empty()) {
            found.push(Found {
                field: format!("{}.image", container.field()),
                image: image.to_owned(),
                owner: (container.list, container.row.text_or_empty(1).to_owned()),
            });
        }
    });
    let volumes =
        object.rows(&format!("{}/volumes", spec.pointer()), &["/image/reference", "/name"]);
    for (index, volume) in volumes.iter().enumerate() {
        if let Some(image) = volume.text(0).filter(|image| !image.is_empty()) {
            found.push(Found {
                field: format!("{}.volumes[{index}].image.reference", spec.field()),
                image: image.to_owned(),
                owner: ("volumes", volume.text_or_empty(1).to_owned()),
            });
        }
    }
    found
}
