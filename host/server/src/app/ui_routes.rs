//! The routes of `/ui/`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::Response;
use axum::routing::get;

use super::{App, plain};
use crate::ui::{ServerStatus, Ui};

impl App {
    /// Adds the routes of the page, if it is on. Each checks the name by which the page was opened.
    pub(super) fn with_ui(&self, router: Router<Arc<Self>>) -> Router<Arc<Self>> {
        let Some(ui) = self.ui.clone() else { return router };
        let moved = async || {
            let mut response = plain(StatusCode::PERMANENT_REDIRECT, "the page is /ui/");
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("ui/"));
            response
        };
        let shown = ui.clone();
        let overview = |State(app): State<Arc<Self>>, request: Request| async move {
            let known = shown.check_host(request.headers());
            known.map_or_else(|error| *error, |()| app.overview(&shown, request.uri().query()))
        };
        let listed = ui.clone();
        let rules = |State(app): State<Arc<Self>>, request: Request| async move {
            let (set, query) = (app.serving.current().set.clone(), request.uri().query());
            let known = listed.check_host(request.headers());
            known.map_or_else(|error| *error, |()| listed.rules(&set, query))
        };
        let rule = |State(app): State<Arc<Self>>, Path(id): Path<String>, request: Request| async move {
            let known = ui.check_host(request.headers());
            known.map_or_else(|error| *error, |()| ui.rule(&app.serving.current().set, &id))
        };
        router
            .route("/ui", get(moved))
            .route("/ui/", get(overview))
            .route("/ui/rules", get(rules))
            .route("/ui/rules/{id}", get(rule))
    }

    fn overview(&self, ui: &Ui, query: Option<&str>) -> Response {
        let status = ServerStatus {
            serving: &self.serving,
            not_ready: self.why_not_ready(),
            registration: self.registration(),
            totals: self.metrics.request_totals(),
            request_memory: (self.memory.used(), self.memory.limit()),
        };
        ui.overview(&status, query)
    }
}
