// Shows openapi.json: each path with its fields, answers and a command to try.
const specification = await (await fetch("openapi.json")).json();

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.append(...children);
  return made;
}

function list(title, entries) {
  return entries.length ? [element("h3", title), element("ul", "", ...entries.map((entry) => element("li", entry)))] : [];
}

function section(path, method, about) {
  const form = about.requestBody?.content["multipart/form-data"].schema;
  const fields = Object.entries(form?.properties ?? {}).map(([name, { type, enum: values, description }]) =>
    `${name}: ${[values?.join(", ") ?? type, form.required.includes(name) ? "required" : "", description].filter(Boolean).join("; ")}`);
  const answers = Object.entries(about.responses).map(([status, { description }]) => `${status}: ${description}`);
  const options = form ? " -F file=@call.wav -F response_format=text" : "";
  return element("section", "",
    element("h2", `${method.toUpperCase()} ${path}`), element("p", about.summary),
    element("pre", `curl ${location.origin}${path}${options}`), ...list("Fields", fields), ...list("Answers", answers));
}

document.getElementById("about").textContent = specification.info.description;
for (const [path, methods] of Object.entries(specification.paths)) {
  for (const [method, about] of Object.entries(methods)) {
    document.getElementById("paths").append(section(path, method, about));
  }
}
