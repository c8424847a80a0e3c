// An import as a whole: what the run says of itself, when two imports are the same, which requests
// cannot be.
#include "engine/analyse/import/import.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/io/sha256.h"
#include "tests/engine/analyse/import/refusals.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

class Files {
 public:
  ImportRequest request(const std::string& name, const std::string& format,
                        const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return {.format = format, .file = folder_ / name, .device = "RTX 4090", .model = "pair-7b"};
  }

 private:
  test::TempFolder folder_;
};

const std::string kLog = "request,context,strategy,emitted\na,3000,nsa/ar,1\n";
const std::string kRow =
    R"({"batch_size": 1, "steps": 3, "topk": 1, "num_draft_tokens": 4, "acc_length": 2.5, )"
    R"("step_time": 0.01, "completion_tokens": 512})";

}  // namespace

TEST_CASE("a run says that it was imported, from what, and what was stated") {
  const Files files;
  ImportRequest request = files.request("steps.csv", "csv", kLog);
  request.regime = "code";
  const ImportedRun run = read_import(request);
  CHECK(run.record.kind == "imported: csv");
  CHECK(is_imported(run.record));
  CHECK(run.record.device == "RTX 4090");
  CHECK(run.record.counter_access == CounterState::kOff);
  CHECK(run.record.self_check == SelfCheckVerdict::kOff);
  const nlohmann::json configuration = nlohmann::json::parse(run.record.configuration);
  CHECK(configuration["file"] == "steps.csv");
  CHECK(configuration["bytes"] == kLog.size());
  CHECK(configuration["sha256"] == sha256_hex(kLog));
  CHECK(configuration["rows_taken"] == 1);
  CHECK(configuration["rows_left_out"].empty());
  REQUIRE(run.points.size() == 1);
  CHECK(run.points[0].key.model == "pair-7b");
  CHECK(run.points[0].key.regime == "code, concurrency 1");
  CHECK(run.points[0].key.split.empty());
}

TEST_CASE("two imports are the same by bytes and request, not by the file's name") {
  const Files files;
  const std::string uuid = read_import(files.request("a.csv", "csv", kLog)).record.uuid;
  CHECK(uuid.size() == 36);
  CHECK(read_import(files.request("b.csv", "csv", kLog)).record.uuid == uuid);
  CHECK(read_import(files.request("a.csv", "csv", kLog + "\n")).record.uuid != uuid);
  ImportRequest other = files.request("a.csv", "csv", kLog);
  other.model = "pair-8b";
  CHECK(read_import(other).record.uuid != uuid);
}

TEST_CASE("what a format does not say is stated, or known of it") {
  const Files files;
  ImportRequest request = files.request("out.jsonl", "sglang", kRow);
  CHECK(read_import(request).points.at(0).key.context_len == 1024);
  request.context_len = 16000;
  request.attention = "nsa";
  const PointMeasurement point = read_import(request).points.at(0);
  CHECK(point.key.context_len == 16000);
  CHECK(point.key.strategy == "nsa/d3k1n4/bfs/c1/F*");
}

TEST_CASE("requests that cannot be are usage, files without rows are bad input") {
  const Files files;
  const auto check = [](const ImportRequest& request, ExitCode code, const std::string& part) {
    const Error error = test::error_of([&] { read_import(request); });
    CAPTURE(error.what());
    CHECK(error.code() == code);
    CHECK(test::contains(error.what(), part));
  };
  const ImportRequest log = files.request("a.csv", "csv", kLog);
  ImportRequest wrong = log;
  wrong.format = "xml";
  check(wrong, ExitCode::kUsage, "the formats are csv, sglang, vllm, trtllm, profile, sequoia");
  wrong = log;
  wrong.attention = "dense";
  check(wrong, ExitCode::kUsage, "no --attention, no --context and no --draft beside it");
  wrong = log;
  wrong.device = "two\nlines";
  check(wrong, ExitCode::kUsage, "--device takes a name");
  wrong = log;
  wrong.model = "\xFF";
  check(wrong, ExitCode::kUsage, "--model takes a name");
  for (const char* name : {"", " ", " chat", "chat "}) {
    wrong = log;
    wrong.regime = name;
    check(wrong, ExitCode::kUsage, "--regime takes a name");
  }
  wrong = log;
  wrong.model = " ";
  check(wrong, ExitCode::kUsage, "without spaces around it");
  wrong = files.request("page", "vllm", "vllm:spec_decode_num_drafts 1\n");
  check(wrong, ExitCode::kUsage, "--context does");
  wrong.context_len = 0;
  check(wrong, ExitCode::kUsage, "--context is a number of tokens");
  wrong.context_len = 1024;
  wrong.attention = "resa";
  check(wrong, ExitCode::kUsage, "--attention is dense or nsa");
  check(files.request("empty.csv", "csv", ""), ExitCode::kBadInput, "has no row to import");
  ImportRequest missing = log;
  missing.file += ".gone";
  check(missing, ExitCode::kBadInput, "cannot be read");
  ImportRequest draft = files.request("b.jsonl", "sglang", kRow);
  draft.draft = "5";
  check(draft, ExitCode::kUsage, "--draft is d<depth>k<width>n<nodes");
  draft.draft = "ar1";
  check(draft, ExitCode::kUsage, "--draft is d<depth>k<width>n<nodes");
  draft.draft = "ar";
  check(draft, ExitCode::kUsage, "times of a server without speculation");
  draft.draft.reset();
  ImportRequest before = files.request("b.csv", "csv", kRow);
  before.before = before.file;
  check(before, ExitCode::kUsage, "--before is an earlier /metrics page");
}

TEST_CASE("the requests at a time are part of the regime, and rows alike are one point") {
  const Files files;
  std::string batch = kRow;
  batch.replace(batch.find("1"), 1, "8");
  ImportRequest request = files.request("b.jsonl", "sglang", batch + "\n" + batch);
  request.regime = "code";
  const ImportedRun run = read_import(request);
  REQUIRE(run.points.size() == 2);
  CHECK(run.points[1].time_ns.size() == 2);
  CHECK(run.points[1].key.regime == "code, concurrency 8");
  CHECK(run.points[0].key.regime == "code, concurrency 8");
  CHECK(run.points[0].acceptance->steps == 2 * 205);
}

TEST_CASE("two scrapes are subtracted, and a restart between them is named") {
  const Files files;
  const auto page = [](int drafts, int accepted, const char* born) {
    return "vllm:spec_decode_num_drafts_total{engine=\"0\"} " + std::to_string(drafts) +
           "\nvllm:spec_decode_num_drafts_created{engine=\"0\"} " + born +
           "\nvllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",position=\"0\"} " +
           std::to_string(accepted) + "\n";
  };
  ImportRequest request = files.request("after", "vllm", page(300, 150, "1.5e+09"));
  request.context_len = 1024;
  request.before = files.request("before", "vllm", page(100, 90, "1.5e+09")).file;
  const ImportedRun run = read_import(request);
  CHECK(run.points.at(0).acceptance->steps == 200);
  CHECK(run.points.at(0).acceptance->accepted_per_step == Approx(1.3));
  for (const std::string& before : {page(400, 90, "1.5e+09"), page(100, 90, "1.4e+09")}) {
    request.before = files.request("before", "vllm", before).file;
    const Error error = test::error_of([&] { read_import(request); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(test::contains(error.what(), "was reset between the two scrapes"));
  }
}

TEST_CASE("a stated draft that is not what the record holds is refused, whatever the record") {
  const Files files;
  const std::string page =
      "vllm:spec_decode_num_drafts_total 1000\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 600\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 300\n";
  const std::string profile = R"({"schema_version": "1.0", "num_speculative_tokens": 2,)"
                              R"("acceptance_length_histogram": {"1": 10, "3": 20}})";
  const std::string vector = "[0.0, 0.55, 0.25, 0.2]";
  const auto with = [&](const char* format, const std::string& text, const char* draft) {
    ImportRequest request = files.request("f", format, text);
    request.context_len = 4096;
    request.draft = draft;
    if (std::string(format) == "sequoia") {
      request.steps = 100;
    }
    return request;
  };
  struct Case {
    const char* format;
    std::string text;
    const char* right;
    const char* said;
  };
  for (const Case& c :
       {Case{"vllm", page, "d2k1n3", "d2k1n3"}, Case{"sglang", kRow, "d3k1n4", "d3k1n4"},
        Case{"profile", profile, "d2k1n3", "d2k1n3"},
        Case{"sequoia", vector, "d1k2n3", "d1k2n3"}}) {
    CAPTURE(c.format);
    CHECK(!read_import(with(c.format, c.text, c.right)).points.empty());
    for (const char* wrong : {"d5k1n6", "d1k1n2", "d4k2n8"}) {
      if (std::string(c.format) == "profile" && wrong[1] == '4') {
        continue;  // it does not say which tree its tokens were
      }
      CAPTURE(wrong);
      const Error error = test::error_of([&] { read_import(with(c.format, c.text, wrong)); });
      CHECK(error.code() == ExitCode::kBadInput);
      CHECK(test::contains(error.what(), wrong));
      CHECK(test::contains(error.what(), "leave it out"));
    }
  }
}
