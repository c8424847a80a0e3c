// Messages of a chat as the text that the checkpoint was trained on: its own template, applied by
// Python's jinja2 in a child process (render_chat.py).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace versieve::engine {

// `messages`: a JSON list of {role, content}. The template: chat_template.jinja, or `chat_template`
// of tokenizer_config.json or chat_template.json; the reply's beginning is appended. Throws
// Error: kBadInput for files that are missing or wrong and for messages that the template refuses,
// kEnvironment without python3 or jinja2. `pythons`: programs that are tried until one has jinja2;
// the first in PATH may be one without the system's packages.
std::string apply_chat_template(const std::filesystem::path& model,
                                const std::filesystem::path& messages,
                                const std::vector<std::string>& pythons = {"python3",
                                                                           "/usr/bin/python3"});

}  // namespace versieve::engine
