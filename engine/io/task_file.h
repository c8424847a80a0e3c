// Task sets (engine/demo/tasks.py writes them): texts, and questions about what follows a place in
// them, each with one true answer among wrong ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace versieve::engine {

inline constexpr const char* kTaskFormat = "versieve task set";
inline constexpr std::int64_t kTaskSchema = 1;

struct TaskQuestion {
  std::int64_t at = 0;               // bytes of the context's text that stand before the question
  std::string ask;                   // put behind them; may be empty
  std::vector<std::string> choices;  // two or more, all different, none empty
  std::size_t answer = 0;            // the true one
  std::optional<std::int64_t> evidence;  // where in the text the answer is stated, in bytes
};

struct TaskContext {
  std::string source, licence;
  std::string text;
  std::vector<TaskQuestion> questions;
};

struct TaskSet {
  std::string name;
  std::string question;  // what is asked, in words
  std::string sha256;    // of the file
  std::vector<TaskContext> contexts;

  std::int64_t question_count() const;
};

// Throws Error(kBadInput) for what is no such file, naming the context and question.
TaskSet read_task_set(const std::filesystem::path& path);

}  // namespace versieve::engine
