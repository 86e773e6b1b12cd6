//! How a path is described, beside the code that answers it; `openapi.rs` makes one document of all of them.

use http::StatusCode;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::path::{HttpMethod, Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    Content, HeaderBuilder, ObjectBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema,
};

/// Answers that any operation may have: `openapi.rs` says what they are.
pub(super) const COMMON_RESPONSES: [(&str, &str); 3] =
    [("414", "PathTooLong"), ("429", "TooOften"), ("431", "HeadTooLarge")];

/// Where an operation's commands stand in the document, as other programs look for them, too.
pub(super) const CODE_SAMPLES: &str = "x-codeSamples";

/// OpenAPI path item and the schemas it refers to.
pub(crate) struct PathSpec {
    pub(super) path: PathItem,
    pub(super) schemas: Vec<(String, RefOr<Schema>)>,
}

impl PathSpec {
    /// A path that can be read: also by HEAD, and asked what else can be done there.
    pub(crate) fn readable(get: OperationSpec) -> Self {
        let mut described = Self::single(HttpMethod::Get, get.clone());
        let mut head = get.operation;
        head.summary = Some("The same without its body".into());
        head.description = None;
        head.extensions = None;
        for response in head.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.clear();
            }
        }
        described.path.head = Some(head);
        described
    }

    /// A path where nothing but this can be done.
    pub(crate) fn single(method: HttpMethod, doing: OperationSpec) -> Self {
        let options =
            OperationSpec::new("Which methods there are, for browsers that ask before they send something")
                .response(StatusCode::OK, "The methods")
                .response_header("Allow", "The methods")
                .response_header("Access-Control-Allow-Methods", "The methods, for pages of other sites");
        let mut options = options.operation;
        options.tags.clone_from(&doing.operation.tags);
        let in_path = doing.operation.parameters.iter().flatten();
        let in_path =
            in_path.filter(|one| matches!(one, RefOr::T(one) if one.parameter_in == ParameterIn::Path));
        options.parameters = Some(in_path.cloned().collect());
        let mut path = PathItem::new(method, doing.operation);
        path.options = Some(options);
        Self { path, schemas: doing.schemas }
    }

    /// And this can be done there, too.
    pub(crate) fn with_method(mut self, method: HttpMethod, doing: OperationSpec) -> Self {
        self.path.merge_operations(PathItem::new(method, doing.operation));
        self.schemas.extend(doing.schemas);
        self
    }
}

/// Builder for one OpenAPI operation.
#[derive(Clone)]
pub(crate) struct OperationSpec {
    operation: Operation,
    schemas: Vec<(String, RefOr<Schema>)>,
    /// The status of the answer that is being described.
    status: String,
}

impl OperationSpec {
    pub(crate) fn new(summary: &str) -> Self {
        let mut operation = Operation::new();
        operation.summary = Some(summary.into());
        for (status, name) in COMMON_RESPONSES {
            let answer = RefOr::Ref(Ref::from_response_name(name));
            operation.responses.responses.insert(status.into(), answer);
        }
        Self { operation, schemas: Vec::new(), status: String::new() }
    }

    /// More about it.
    pub(crate) fn description(mut self, description: &str) -> Self {
        self.operation.description = Some(description.into());
        self
    }

    /// Which chapter of the page it belongs to.
    pub(crate) fn tag(mut self, group: &str) -> Self {
        self.operation.tags = Some(vec![group.into()]);
        self
    }

    /// A command that shows it, for a service with the demo's records; `$SERVER` stands for its address.
    pub(crate) fn example_command(mut self, command: &str) -> Self {
        let samples = self.operation.extensions.get_or_insert_default().entry(CODE_SAMPLES.into());
        if let Some(samples) = samples.or_insert(json!([])).as_array_mut() {
            samples.push(json!({"lang": "Shell", "source": command}));
        }
        self
    }

    /// What stands in the path.
    pub(crate) fn path_param(self, name: &str, about: &str, schema: Schema) -> Self {
        self.parameter(name, ParameterIn::Path, about, schema)
    }

    /// What may stand after the question mark.
    pub(crate) fn query_param(self, name: &str, about: &str, schema: Schema) -> Self {
        self.parameter(name, ParameterIn::Query, about, schema)
    }

    fn parameter(mut self, name: &str, place: ParameterIn, about: &str, schema: Schema) -> Self {
        let required = if place == ParameterIn::Path { Required::True } else { Required::False };
        let parameter: Parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(required.clone())
            .description(Some(about))
            .schema(Some(schema))
            .build();
        let parameters = self.operation.parameters.get_or_insert_default();
        let at = if required == Required::True { 0 } else { parameters.len() };
        parameters.insert(at, RefOr::T(parameter));
        self
    }

    /// What is sent along.
    pub(crate) fn request_body<T: ToSchema>(mut self, kind: &str, about: &str, required: Required) -> Self {
        let content = Content::new(Some(self.schema_ref::<T>()));
        let body = RequestBodyBuilder::new()
            .description(Some(about))
            .content(kind, content)
            .required(Some(required))
            .build();
        self.operation.request_body = Some(RefOr::T(body));
        self
    }

    /// Passwords and tokens are taken, and needed unless told otherwise.
    pub(crate) fn security(mut self, are_needed: bool) -> Self {
        let nobody = (!are_needed).then(SecurityRequirement::default);
        let known = ["password", "nonce", "token"]
            .map(|scheme| SecurityRequirement::new::<_, [&str; 0], _>(scheme, []));
        self.operation.security = Some(nobody.into_iter().chain(known).collect());
        self
    }

    /// An answer; what follows is about it.
    pub(crate) fn response(mut self, status: StatusCode, about: &str) -> Self {
        self.status = status.as_str().into();
        let response = ResponseBuilder::new()
            .description(about)
            .header_ref("X-Request-Id", Ref::new("#/components/headers/X-Request-Id"))
            .build();
        self.operation.responses.responses.insert(self.status.clone(), RefOr::T(response));
        self
    }

    /// Its body can be text of this kind.
    pub(crate) fn text_content(self, kind: &str) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::String);
        self.content(kind, Content::new(Some(schema)))
    }

    /// Its body can be JSON of this kind.
    pub(crate) fn json_content<T: ToSchema>(mut self, kind: &str) -> Self {
        let content = Content::new(Some(self.schema_ref::<T>()));
        self.content(kind, content)
    }

    /// Its body can be a list of such JSON.
    pub(crate) fn json_list_content<T: ToSchema>(mut self, kind: &str) -> Self {
        let content = Content::new(Some(ArrayBuilder::new().items(self.schema_ref::<T>())));
        self.content(kind, content)
    }

    fn content(mut self, kind: &str, content: Content) -> Self {
        if let Some(answer) = self.current_response() {
            answer.content.insert(kind.into(), RefOr::T(content));
        }
        self
    }

    /// It has this header.
    pub(crate) fn response_header(mut self, name: &str, about: &str) -> Self {
        let header = HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .description(Some(about))
            .build();
        if let Some(answer) = self.current_response() {
            answer.headers.insert(name.into(), RefOr::T(header));
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

/// Any text; NUL is none.
pub(crate) fn text_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(r"^[^\u0000]*$")).into()
}

/// Text that matches an expression.
pub(crate) fn pattern_schema(pattern: &str) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into()
}

/// One of these words.
pub(crate) fn enum_schema<'w>(words: impl IntoIterator<Item = &'w str>) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
}

/// At least one of something.
pub(crate) fn positive_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(u32::MAX)).into()
}

/// Any number of these.
pub(crate) fn array_schema(one: Schema) -> Schema {
    ArrayBuilder::new().items(RefOr::T(one)).into()
}

/// A number of 32 bits.
pub(crate) fn int32_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(i32::MIN)).maximum(Some(i32::MAX)).into()
}

/// How many of something.
pub(crate) fn count_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(usize::MAX)).into()
}

/// The index of a value.
pub(crate) fn index_schema() -> Schema {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(u32::MAX)).into()
}
