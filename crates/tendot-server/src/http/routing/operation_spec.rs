//! Builder for OpenAPI operations, used beside each handler; `openapi.rs` combines them.

use http::StatusCode;
use serde_json::{Value as Json, json};
use utoipa::ToSchema;
use utoipa::openapi::path::{
    HttpMethod, Operation as OpenApiOperation, Parameter, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    Content, HeaderBuilder, ObjectBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};

use crate::http::response::problem::ProblemJson;
use crate::http::routing::endpoint::{Access, Operation, RequestMethod};

/// Responses that every operation may have; `openapi.rs` defines them.
pub(crate) const COMMON_RESPONSES: [(&str, &str); 3] =
    [("414", "UriTooLong"), ("429", "TooManyRequests"), ("431", "HeaderFieldsTooLarge")];

/// OpenAPI extension for example commands, understood by other tools, too.
pub(crate) const CODE_SAMPLES: &str = "x-codeSamples";

/// OpenAPI path item and the schemas it refers to.
pub(crate) struct PathSpec {
    pub(crate) path: PathItem,
    pub(crate) schemas: Vec<(String, RefOr<Schema>)>,
}

impl PathSpec {
    /// Path with GET; HEAD and OPTIONS are added.
    pub(crate) fn readable(get: OperationSpec) -> Self {
        let mut spec = Self::single(HttpMethod::Get, get.clone());
        let mut head = get.operation;
        head.summary = Some("Same as GET, without a body".into());
        head.description = None;
        head.extensions = None;
        for response in head.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.clear();
            }
        }
        spec.path.head = Some(head);
        spec
    }

    /// Path with a single method.
    pub(crate) fn single(method: HttpMethod, spec: OperationSpec) -> Self {
        let options = OperationSpec::new("Get the allowed methods (CORS preflight)")
            .response(StatusCode::OK, "Allowed methods")
            .response_header("Allow", "Allowed methods")
            .response_header("Access-Control-Allow-Methods", "Allowed methods of cross-origin requests");
        let mut options = options.operation;
        options.tags.clone_from(&spec.operation.tags);
        let path_params = spec.operation.parameters.iter().flatten().filter(|parameter| {
            matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Path)
        });
        options.parameters = Some(path_params.cloned().collect());
        let mut path = PathItem::new(method, spec.operation);
        path.options = Some(options);
        Self { path, schemas: spec.schemas }
    }

    /// Sets which operations accept credentials, and which need them.
    pub(crate) fn set_security(&mut self, operations: &[Operation]) {
        for operation in operations {
            let anonymous = match operation.access {
                Access::Public => continue,
                Access::Optional => Some(SecurityRequirement::default()),
                Access::Authenticated => None,
            };
            let schemes = ["basic", "handle", "bearer"]
                .map(|scheme| SecurityRequirement::new::<_, [&str; 0], _>(scheme, []));
            let security: Vec<_> = anonymous.into_iter().chain(schemes).collect();
            let described = match operation.method {
                RequestMethod::Get => [self.path.get.as_mut(), self.path.head.as_mut()],
                RequestMethod::Post => [self.path.post.as_mut(), None],
                RequestMethod::Put => [self.path.put.as_mut(), None],
                RequestMethod::Delete => [self.path.delete.as_mut(), None],
            };
            for operation in described.into_iter().flatten() {
                operation.security = Some(security.clone());
            }
        }
    }

    /// Adds a method.
    pub(crate) fn with_method(mut self, method: HttpMethod, spec: OperationSpec) -> Self {
        self.path.merge_operations(PathItem::new(method, spec.operation));
        self.schemas.extend(spec.schemas);
        self
    }
}

/// Builder for one OpenAPI operation.
#[derive(Clone)]
pub(crate) struct OperationSpec {
    operation: OpenApiOperation,
    schemas: Vec<(String, RefOr<Schema>)>,
    /// Status of the response that is being described.
    status: String,
}

impl OperationSpec {
    /// Operation of this group that returns text.
    pub(crate) fn text(tag: &str, summary: &str, description: &str, media_type: &str) -> Self {
        Self::new(summary).tag(tag).response(StatusCode::OK, description).text_content(media_type)
    }

    pub(crate) fn new(summary: &str) -> Self {
        let mut operation = OpenApiOperation::new();
        operation.summary = Some(summary.into());
        for (status, name) in COMMON_RESPONSES {
            let response = RefOr::Ref(Ref::from_response_name(name));
            operation.responses.responses.insert(status.into(), response);
        }
        Self { operation, schemas: Vec::new(), status: String::new() }
    }

    /// Sets the description.
    pub(crate) fn description(mut self, description: &str) -> Self {
        self.operation.description = Some(description.into());
        self
    }

    /// Sets the tag: the section of the API reference.
    pub(crate) fn tag(mut self, tag: &str) -> Self {
        self.operation.tags = Some(vec![tag.into()]);
        self
    }

    /// Adds an example command for a server with the demo records; `$SERVER` is its address.
    pub(crate) fn example_command(mut self, command: &str) -> Self {
        let samples = self.operation.extensions.get_or_insert_default().entry(CODE_SAMPLES.into());
        if let Some(samples) = samples.or_insert(json!([])).as_array_mut() {
            samples.push(json!({"lang": "Shell", "source": command}));
        }
        self
    }

    /// Adds a path parameter.
    pub(crate) fn path_param(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter(name, ParameterIn::Path, description, schema)
    }

    /// Adds a query parameter.
    pub(crate) fn query_param(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter(name, ParameterIn::Query, description, schema)
    }

    fn parameter(mut self, name: &str, location: ParameterIn, description: &str, schema: Schema) -> Self {
        let required = if location == ParameterIn::Path { Required::True } else { Required::False };
        let example = path_param_example(name).filter(|_| location == ParameterIn::Path);
        let parameter: Parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(location)
            .required(required.clone())
            .description(Some(description))
            .schema(Some(schema))
            .example(example)
            .build();
        let parameters = self.operation.parameters.get_or_insert_default();
        let position = if required == Required::True { 0 } else { parameters.len() };
        parameters.insert(position, RefOr::T(parameter));
        self
    }

    /// Sets the request body.
    pub(crate) fn request_body<T: ToSchema>(
        mut self,
        media_type: &str,
        description: &str,
        required: Required,
    ) -> Self {
        let content = Content::new(Some(self.schema_ref::<T>()));
        let body = RequestBodyBuilder::new()
            .description(Some(description))
            .content(media_type, content)
            .required(Some(required))
            .build();
        self.operation.request_body = Some(RefOr::T(body));
        self
    }

    /// Adds a response; the following calls describe it.
    pub(crate) fn response(mut self, status: StatusCode, description: &str) -> Self {
        self.status = status.as_str().into();
        let response = ResponseBuilder::new()
            .description(description)
            .header_ref("X-Request-Id", Ref::new("#/components/headers/X-Request-Id"))
            .build();
        self.operation.responses.responses.insert(self.status.clone(), RefOr::T(response));
        self
    }

    /// Adds a text body of this media type to the response.
    pub(crate) fn text_content(self, media_type: &str) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        self.content(media_type, Content::new(Some(schema)))
    }

    /// Adds a JSON body to the response.
    pub(crate) fn json_content<T: ToSchema>(mut self, media_type: &str) -> Self {
        let content = Content::new(Some(self.schema_ref::<T>()));
        self.content(media_type, content)
    }

    /// Adds a body that is a JSON array to the response.
    pub(crate) fn json_list_content<T: ToSchema>(mut self, media_type: &str) -> Self {
        let content = Content::new(Some(ArrayBuilder::new().items(self.schema_ref::<T>())));
        self.content(media_type, content)
    }

    fn content(mut self, media_type: &str, content: Content) -> Self {
        if let Some(response) = self.current_response() {
            response.content.insert(media_type.into(), RefOr::T(content));
        }
        self
    }

    /// Adds problem details (RFC 9457) as a body to the response.
    pub(crate) fn problem_content(self) -> Self {
        self.json_content::<ProblemJson<'_>>("application/problem+json")
    }

    /// Adds a response with problem details.
    pub(crate) fn problem(self, status: StatusCode, description: &str) -> Self {
        self.response(status, description).problem_content()
    }

    /// Adds the responses of failed authentication: 401, and 403.
    pub(crate) fn authentication_problems(self, unauthenticated: &str, forbidden: &str) -> Self {
        self.problem(StatusCode::UNAUTHORIZED, unauthenticated)
            .response_header("WWW-Authenticate", "Supported authentication schemes")
            .problem(StatusCode::FORBIDDEN, forbidden)
    }

    /// Adds the responses of a failed or busy server: 500, and 503.
    pub(crate) fn server_problems(self, unavailable: &str) -> Self {
        self.problem(StatusCode::INTERNAL_SERVER_ERROR, "Store error")
            .problem(StatusCode::SERVICE_UNAVAILABLE, unavailable)
    }

    /// Adds an `ETag` header, and the response 304.
    pub(crate) fn entity_tag(self) -> Self {
        self.response_header("ETag", "Entity tag")
            .response(StatusCode::NOT_MODIFIED, "Not modified (`If-None-Match`)")
    }

    /// Adds a header to the response.
    pub(crate) fn response_header(mut self, name: &str, description: &str) -> Self {
        let header = HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .description(Some(description))
            .build();
        if let Some(response) = self.current_response() {
            response.headers.insert(name.into(), RefOr::T(header));
        }
        self
    }

    fn current_response(&mut self) -> Option<&mut Response> {
        match self.operation.responses.responses.get_mut(&self.status)? {
            RefOr::T(response) => Some(response),
            RefOr::Ref(_) => None,
        }
    }

    fn schema_ref<T: ToSchema>(&mut self) -> Ref {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        Ref::from_schema_name(T::name())
    }
}

/// Example of a path parameter; names are those of the demo records.
fn path_param_example(name: &str) -> Option<Json> {
    let example = match name {
        "name" => "10.5555/DEMO",
        "names" => "10.5555/DEMO,10.5555/none",
        "prefix" => "10.5555",
        "identity" => "300:0.NA/10.5555",
        "code" => "EXAMPLE",
        "id" => "1",
        _ => return None,
    };
    Some(example.into())
}

/// Schema of a string without NUL.
pub(crate) fn text_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(r"^[^\u0000]*$")).into()
}

/// Schema of a string that matches a pattern.
pub(crate) fn pattern_schema(pattern: &str) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
}

/// Schema of an enumeration.
pub(crate) fn enum_schema<'v>(values: impl IntoIterator<Item = &'v str>) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).into()
}

/// Schema of a positive integer.
pub(crate) fn positive_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(u32::MAX)).into()
}

/// Schema of an array.
pub(crate) fn array_schema(item: Schema) -> Schema {
    ArrayBuilder::new().items(RefOr::T(item)).into()
}

/// Schema of a 32-bit integer.
pub(crate) fn int32_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(i32::MIN)).maximum(Some(i32::MAX)).into()
}

/// Schema of a non-negative integer.
pub(crate) fn count_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(usize::MAX)).into()
}

/// Schema of a value index.
pub(crate) fn index_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(u32::MAX)).into()
}
