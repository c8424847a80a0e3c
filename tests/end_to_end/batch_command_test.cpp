// Many prompts through the built command: texts, files in and out, what is refused, what a killed
// program leaves.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "engine/analyse/plan/table_file.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/tiny_batch_table.h"
#include "tests/support/tiny_model.h"

using namespace versieve::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A tiny pair of the byte tokenizer, and what its requests are decoded by.
struct Scene {
  TempFolder folder;
  fs::path model = folder / "model";
  std::string strategy = "nsa/d4k2n7/bfs/c1/F*";

  Scene() { write_tiny_pair(model, TinyModel{}); }
  // "specattn: …": a dense pair whose draft model chooses tokens.
  explicit Scene(const std::string& chosen) : strategy(chosen) {
    TinyModel tiny;
    if (!chosen.starts_with("specattn")) {
      write_tiny_pair(model, tiny);
      return;
    }
    tiny.target.attention = versieve::AttentionKind::kDense;
    tiny.target.layers = 4;
    write_tiny_dense_pair(model, tiny, 3);
    file("model/layer_map.json",
         R"({"format": "versieve layer map", "schema": 1, "map": [0, 0, 1, 2]})");
  }

  std::string file(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  }
  std::string lines(int count, int tokens) const {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += json{{"prompt", "the prompt of number " + std::to_string(i)},
                   {"id", "r" + std::to_string(i)},
                   {"max_new_tokens", tokens + i % 3},
                   {"seed", i}}
                  .dump() +
              "\n";
    }
    return file("prompts.jsonl", text);
  }
  std::string generate(const std::string& prompts, const std::string& more = "") const {
    return "generate --model " + model.string() + " --strategy '" + strategy + "' --prompts " +
           prompts + " --max-new-tokens 12 --backend cpu " + more;
  }
  json answer(const std::string& prompts, const std::string& more) const {
    const CommandResult result = run_versieve(generate(prompts, more) + " --json");
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out);
  }
};

std::vector<json> lines_of(const fs::path& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

// The command in a process of its own, whose standard error goes to a file.
pid_t start_versieve(const std::string& arguments, const fs::path& err) {
  const pid_t process = ::fork();
  if (process == 0) {
    const int file = ::open(err.c_str(), O_WRONLY | O_CREAT, 0666);
    ::dup2(file, STDERR_FILENO);
    const std::string line = "exec " VERSIEVE_BINARY_DIR "/bin/versieve " + arguments;
    ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  return process;
}

void wait_for_lines(const fs::path& path, std::ptrdiff_t lines) {
  for (int turn = 0; turn < 6000; ++turn) {
    const std::string text = text_of_file(path);
    if (std::count(text.begin(), text.end(), '\n') >= lines) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

TEST_CASE("requests of a batch have the texts that they have alone") {
  const Scene scene;
  const std::string prompts = scene.lines(9, 10);
  const json together = scene.answer(prompts, "--concurrency 4 --compare-ar --prefill-rows 17");
  REQUIRE(together.at("requests").size() == 9);
  CHECK(together.at("concurrency") == 4);
  CHECK(together.at("most_running") == 4);
  CHECK(together.at("tokens_per_s") > 0.0);
  const json alone = scene.answer(prompts, "--concurrency 1");
  for (std::size_t i = 0; i < 9; ++i) {
    const json& request = together.at("requests")[i];
    CHECK(request.at("id") == "r" + std::to_string(i));
    CHECK(request.at("prompt") == "the prompt of number " + std::to_string(i));
    CHECK(request.at("identical_to_ar") == true);
    CHECK(request.at("tokens") == alone.at("requests")[i].at("tokens"));
    CHECK(request.at("text").is_string());
    CHECK(request.at("ttft_ms") > 0.0);
    CHECK(request.at("tokens_per_s") > 0.0);
  }
  // What all requests waited between tokens is made of what each did.
  const json& of_all = together.at("itl_ms");
  double least = 1e9, most = 0.0;
  for (const json& request : together.at("requests")) {
    const json& own = request.at("itl_ms");
    CHECK(own.at("p50") > 0.0);
    CHECK(own.at("p50") <= own.at("p99"));
    least = std::min(least, own.at("p50").get<double>());
    most = std::max(most, own.at("p99").get<double>());
  }
  CHECK(least <= of_all.at("p50"));
  CHECK(of_all.at("p99") == most);  // of fewer than 100 in all
  const json sampled = scene.answer(prompts, "--concurrency 9 --temperature 0.8 --compare-ar");
  for (const json& request : sampled.at("requests")) {
    CHECK(request.at("identical_to_ar") == true);
  }
}

TEST_CASE("an id of any letters is one line of the report") {
  const Scene scene;
  const std::string prompts =
      scene.file("odd.jsonl", json{{"prompt", "a"}, {"id", "two\nlines \x1b[31m"}}.dump() + "\n");
  const CommandResult said = run_versieve(scene.generate(prompts));
  CHECK(said.code == 0);
  CHECK(said.out.rfind("== two lines ", 0) == 0);
  CHECK(said.out.find('\x1b') == std::string::npos);
  CHECK(scene.answer(prompts, "").at("requests")[0].at("id") == "two\nlines \x1b[31m");
  const std::string one =
      scene.file("one.jsonl", json{{"tokens", {5}}, {"max_new_tokens", 1}}.dump());
  CHECK(scene.answer(one, "").at("requests")[0].at("itl_ms").at("p50").is_null());
}

TEST_CASE("a folder's files are prompts, in the order of their names") {
  const Scene scene;
  scene.file("texts/b.txt", "second");
  scene.file("texts/a.txt", "first");
  scene.file("texts/.hidden", "not one");
  const json answer =
      scene.answer((scene.folder / "texts").string(), "--concurrency 8 --arrivals poisson:500");
  REQUIRE(answer.at("requests").size() == 2);
  CHECK(answer.at("requests")[0].at("id") == "a.txt");
  CHECK(answer.at("requests")[1].at("id") == "b.txt");
  CHECK(answer.at("arrivals") == json{{"poisson", 500.0}});
  const CommandResult text = run_versieve(scene.generate((scene.folder / "texts").string()));
  CHECK(text.code == 0);
  CHECK(text.out.find("== a.txt: 12 tokens after ") != std::string::npos);
  CHECK(text.out.find("2 requests, at most 1 at once; 24 tokens in ") != std::string::npos);
}

TEST_CASE("what prompts begin with together is computed once, and said") {
  const Scene scene;
  const std::string shared(150, 'x');
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text += json{{"prompt", shared + std::to_string(i)}}.dump() + "\n";
  }
  const std::string prompts = scene.file("alike.jsonl", text);
  const json answer = scene.answer(prompts, "--concurrency 3 --compare-ar");
  std::int64_t sum = 0;
  for (const json& request : answer.at("requests")) {
    CHECK(request.at("identical_to_ar") == true);
    sum += request.at("shared_prompt_tokens").get<std::int64_t>();
  }
  CHECK(sum == answer.at("shared_prompt_tokens"));
  CHECK(sum >= 2 * 127);
  CHECK(answer.at("prompt_tokens") >= 3 * 151);
  const CommandResult said = run_versieve(scene.generate(prompts, "--concurrency 3"));
  CHECK(said.out.find("prompt tokens were not computed again") != std::string::npos);
}

TEST_CASE("a table's cells are followed as requests join and leave") {
  const Scene scene;
  const std::string table =
      scene.file("table.json", versieve::engine::plan_table_json(tiny_batch_table()));
  const std::string prompts = scene.lines(9, 40);
  const std::string command = "generate --model " + scene.model.string() + " --table " + table +
                              " --prompts " + prompts + " --backend cpu ";
  const CommandResult result = run_versieve(command + "--concurrency 6 --compare-ar --json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const json answer = json::parse(result.out);
  CHECK(answer.at("strategy").is_null());
  CHECK(answer.at("plan").at("class") == "Strict");
  std::set<std::string> tuples;
  std::int64_t steps = 0;
  for (const json& cell : answer.at("plan").at("steps")) {
    const std::string strategy = cell.at("strategy");
    tuples.insert(strategy);
    steps += cell.at("steps").get<std::int64_t>();
    CHECK((cell.at("running") < 5 || strategy == "nsa/ar"));
  }
  CHECK(tuples.size() > 1);
  for (const json& request : answer.at("requests")) {
    CHECK(request.at("identical_to_ar") == true);
    for (const json& tuple : request.at("tuples")) {
      steps -= tuple.at("steps").get<std::int64_t>();
    }
  }
  CHECK(steps == 0);
  check_refused(command + "--strategy nsa/ar", 2, "one strategy");
  check_refused(command + "--guard ranked", 2, "one request at a time");
  check_refused(command + "--class Approx-only", 1, "no tuple of class");
  check_refused(command + "--adapt-gamma", 2, "adapt-gamma");
  check_refused(scene.generate(prompts, "--class Strict"), 2, "give --table");
}

TEST_CASE("tokens need no tokenizer, and keys of a line go before the command's") {
  const Scene scene;
  const std::string prompts = scene.file("ids.jsonl",
                                         "{\"tokens\": [5, 6, 7]}\n\n{\"tokens\": [9], \"id\": 4, "
                                         "\"max_new_tokens\": 3}\n");
  const json answer = scene.answer(prompts, "--concurrency 2");
  CHECK(answer.at("requests")[0].at("id") == "1");
  CHECK(answer.at("requests")[0].at("prompt").is_null());
  CHECK(answer.at("requests")[0].at("tokens").size() == 12);
  CHECK(answer.at("requests")[1].at("id") == "4");
  CHECK(answer.at("requests")[1].at("tokens").size() == 3);
}

// Greedily, and by the seed of each request: chains drawn from their own law, sigmoids, chosen
// tokens.
TEST_CASE("each finished request is a line of the file, whole when the program is killed") {
  struct Run {
    std::string strategy, more;
    int requests;
  };
  const Run run = GENERATE(
      Run{"nsa/d4k2n7/bfs/c1/F*", "--threads 1 ", 600},
      Run{"nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid", "--threads 1 --temperature 0.8 ", 200},
      Run{"specattn:p0.2/d4k1n5/bfs/c1/F*/sampling=exact", "--threads 1 --temperature 0.9 ", 100});
  CAPTURE(run.strategy);
  const Scene scene(run.strategy);
  const std::string prompts = scene.lines(run.requests, 40);
  const fs::path out = scene.folder / "out.jsonl";
  const std::string command =
      VERSIEVE_BINARY_DIR "/bin/versieve " +
      scene.generate(prompts, run.more + "--concurrency 3 --out " + out.string());
  run_line(command + " & process=$!; while [ \"$(cat " + out.string() +
           " 2>/dev/null | wc -l)\" -lt 5 ]; do sleep 0.01; done; kill -9 $process; wait");
  const std::vector<json> kept = lines_of(out);  // each is whole
  REQUIRE(kept.size() >= 5);
  REQUIRE(kept.size() < static_cast<std::size_t>(run.requests));
  const json alone = scene.answer(prompts, run.more + "--concurrency 5");
  std::set<std::string> ids;
  for (const json& line : kept) {
    const std::string id = line.at("id");
    CHECK(ids.insert(id).second);
    CHECK(line.at("tokens") == alone.at("requests")[std::stoul(id.substr(1))].at("tokens"));
  }
  check_refused(scene.generate(prompts, run.more + "--out " + out.string()), 2, "is there already");
}

TEST_CASE("a file that cannot grow keeps its whole lines") {
  const Scene scene;
  const fs::path out = scene.folder / "out.jsonl";
  const CommandResult result =
      run_versieve(scene.generate(scene.lines(40, 10), "--concurrency 4 --out " + out.string()),
                   "ulimit -f 4; ");
  CHECK(result.code == 4);
  CHECK(result.err.find("cannot be written") != std::string::npos);
  CHECK(lines_of(out).size() >= 3);
}

TEST_CASE("a full disk is said, whatever was asked for") {
  const Scene scene;
  const fs::path out = scene.folder / "out.jsonl";
  const std::string all = scene.generate(scene.lines(3, 5), "--out " + out.string());
  CHECK(run_versieve(all, "trap '' XFSZ; ulimit -f 0; ").code == 4);
  CHECK(!fs::exists(out));  // nothing was finished
  check_refused(scene.generate(scene.lines(3, 5), "--out /dev/full"), 4, "No space left on device");
}

// Short requests first; then prompts whose rows need more memory than any step before.
TEST_CASE("memory that ends in the middle of a run costs no finished request") {
  const std::string strategy =
      GENERATE("nsa/d4k2n7/bfs/c1/F*", "nsa/d4k1n5/bfs/c1/F*/sampling=exact",
               "specattn:p0.2/d4k1n5/bfs/c1/F*");
  const std::string more =
      strategy.find("sampling") == std::string::npos ? "" : "--temperature 0.8 ";
  CAPTURE(strategy);
  const Scene scene(strategy);
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += json{{"tokens", {5, 6, 7 + i % 20}}, {"id", "r" + std::to_string(i)}}.dump() + "\n";
  }
  for (int i = 0; i < 16; ++i) {
    text +=
        json{{"tokens", std::vector<int>(700, 3 + i)}, {"id", "large" + std::to_string(i)}}.dump() +
        "\n";
  }
  const std::string prompts = scene.file("growing.jsonl", text);
  const fs::path out = scene.folder / "out.jsonl", err = scene.folder / "err.txt";
  const std::string batch = more + "--concurrency 16 --prefill-rows 4096 --threads 1 --out ";
  const pid_t process = start_versieve(scene.generate(prompts, batch + out.string()), err);
  wait_for_lines(out, 5);
  const rlimit none{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  REQUIRE(::prlimit(process, RLIMIT_AS, &none, nullptr) == 0);  // nothing more from now on
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  CAPTURE(text_of_file(err));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 4);
  // The line of progress ends before what went wrong is said.
  const std::string shown = text_of_file(err);
  const std::string said = shown.substr(shown.find('\n') + 1);
  CHECK(is_one_sentence(said));
  CHECK(said.find("out of memory") != std::string::npos);
  const std::vector<json> kept = lines_of(out);  // each is whole
  CHECK(kept.size() >= 5);
  CHECK(kept.size() < 316);
  const json all = scene.answer(prompts, more + "--concurrency 5");
  std::set<std::string> ids;
  for (const json& line : kept) {
    const std::string id = line.at("id");
    CHECK(ids.insert(id).second);
    REQUIRE(id.starts_with("r"));
    CHECK(line.at("tokens") == all.at("requests")[std::stoul(id.substr(1))].at("tokens"));
  }
}

TEST_CASE("too many requests for the memory wait, and one that never fits is refused") {
  const Scene scene;
  const json waited = scene.answer(scene.lines(12, 10), "--concurrency 12 --kv-memory 1");
  CHECK(waited.at("requests").size() == 12);
  CHECK(waited.at("kv_bytes") <= 1 << 20);
  std::string ids = "[1";
  for (int i = 0; i < 1800; ++i) {
    ids += ", 2";
  }
  const std::string large = scene.file("large.jsonl", "{\"tokens\": " + ids + "]}");
  const CommandResult result = run_versieve(scene.generate(large, "--kv-memory 1"));
  CHECK(result.code == 1);
  CHECK(is_one_sentence(result.err));
}

TEST_CASE("what a folder of prompts holds beside them is said, and its prompts are played") {
  const Scene scene;
  const fs::path folder = scene.folder / "prompts";
  fs::create_directories(folder / "older");
  fs::create_directories(folder / ".git");
  std::ofstream(folder / "a.txt") << "one";
  std::ofstream(folder / "older" / "b.txt") << "two";
  fs::create_symlink("nowhere", folder / "gone.txt");
  const CommandResult result = run_versieve(scene.generate(folder.string()));
  CHECK(result.code == 0);
  CHECK(result.err.find("note: " + folder.string() +
                        ": passed over are 1 folder (older) and 1 file (gone.txt)") !=
        std::string::npos);
  CHECK(result.out.find("a.txt") != std::string::npos);
}

TEST_CASE("what is no request is said with its file and line") {
  const Scene scene;
  const std::string good = scene.lines(2, 10);
  const auto broken = [&](const std::string& text) {
    return scene.generate(scene.file("broken.jsonl", "{\"prompt\": \"a\"}\n" + text + "\n"));
  };
  fs::create_directories(scene.folder / "empty");
  check_refused(scene.generate((scene.folder / "empty").string()), 3, "the folder holds no file");
  fs::create_directories(scene.folder / "empty" / "code");
  check_refused(scene.generate((scene.folder / "empty").string()), 3,
                "a prompt is a file; passed over are 1 folder (code)");
  check_refused(scene.generate(scene.file("none.jsonl", "\n\n")), 3, "the file holds no request");
  check_refused(scene.generate((scene.folder / "missing").string()), 3, "missing");
  check_refused(broken("{\"prompt\": \"b\""), 3, "line 2");
  check_refused(broken("[]"), 3, "a request is a JSON object");
  check_refused(broken("{}"), 3, "a request has a \"prompt\" or \"tokens\"");
  check_refused(broken("{\"prompt\": 7}"), 3, "is a text");
  check_refused(broken("{\"tokens\": []}"), 3, "is a list of token ids");
  check_refused(broken("{\"tokens\": [1, -1]}"), 3, "is no token id");
  check_refused(broken("{\"prompt\": \"\"}"), 3, "no tokens");
  check_refused(broken("{\"prompt\": \"b\", \"id\": \"1\"}"), 3,
                "line 2: two requests have the id '1', this one and that of line 1");
  check_refused(broken("{\"prompt\": \"b\", \"id\": 1.5}"), 3, "a text or a whole number");
  check_refused(broken("{\"prompt\": \"b\", \"max_new_tokens\": 0}"), 3, "from 1 to 2147483647");
  check_refused(broken("{\"prompt\": \"b\", \"seed\": -1}"), 3, "from 0 to 18446744073709551615");
  check_refused(broken("{\"prompt\": \"b\", \"temperature\": -1}"), 3, "temperature");
  check_refused(broken("{\"prompt\": \"b\", \"topk\": 3}"), 3, "is no key of a request");
  check_refused(scene.generate(good, "--concurrency 0"), 2, "concurrency must be from 1");
  check_refused(scene.generate(good, "--concurrency -3"), 2, "concurrency");
  check_refused(scene.generate(good, "--prefill-rows 0"), 2, "prefill-rows");
  for (const char* memory : {"0", "1073741825"}) {
    check_refused(scene.generate(good, std::string("--kv-memory ") + memory), 2,
                  "kv-memory is in MiB, from 1 to 1073741824");
  }
  check_refused(scene.generate(good, "--seed 18446744073709551616"), 2,
                "fits: from 0 to 18446744073709551615");
  for (const char* text : {"poisson:-2", "poisson:0", "poisson:", "poisson:inf", "poisson:1x",
                           "poisson:1e-300", "poisson:9e-7", "uniform:2", "3"}) {
    check_refused(scene.generate(good, std::string("--arrivals ") + text), 2, "poisson:R");
  }
  check_refused(scene.generate(good, "--prompt-file " + good), 2, "not both");
  check_refused(scene.generate(good, "--strategy nsa/ar"), 2, "one strategy");
  check_refused(scene.generate(good, "--top-k 5"), 2, "give a temperature above 0");
  check_refused(scene.generate(good, "--top-k 5 --temperature 1"), 2, "coupled draws are of all");
  check_refused(scene.generate(good, "--out " + (scene.folder / "no/such/out").string()), 4,
                "cannot be written");
  check_refused("generate --model " + scene.model.string() + " --strategy nsa/ar --prompt-file " +
                    good + " --concurrency 2",
                2, "give --prompts");
  check_refused("generate --model " + scene.model.string() +
                    " --strategy dense/ar --backend cpu --prompts " + good,
                1, "request 'r0'");
}

TEST_CASE(
    "a pipe takes finished requests where somebody reads it, and is no wait where nobody does") {
  const Scene scene;
  const std::string prompts = scene.lines(2, 4), pipe = (scene.folder / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_refused(scene.generate(prompts, "--out " + pipe), 4, "a pipe, and nobody reads it");
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  CHECK(run_versieve(scene.generate(prompts, "--out " + pipe)).code == 0);
  std::string text(1 << 16, '\0');
  text.resize(
      static_cast<std::size_t>(std::max<ssize_t>(0, ::read(reader, text.data(), text.size()))));
  ::close(reader);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}

TEST_CASE(
    "a sampler that contradicts temperature or cuts is wrong usage, for one prompt as for many") {
  const Scene scene;
  const std::string many = scene.lines(2, 4), one = scene.file("one.txt", "a prompt");
  const std::string model = "generate --model " + scene.model.string() + " --backend cpu ";
  for (const std::string& prompt : {" --prompts " + many, " --prompt-file " + one}) {
    for (const auto& [rest, sentence] :
         {std::pair{"--strategy nsa/ar --top-k 5", "give a temperature above 0"},
          {"--strategy nsa/ar --top-k 5 --temperature 1", "coupled draws are of all"},
          {"--strategy nsa/ar --min-p 0.1 --temperature 1", "coupled draws are of all"},
          {"--strategy nsa/ar/bfs/c1/F*/sampling=greedy --temperature 1", "is for temperature 0"},
          {"--strategy nsa/ar/bfs/c1/F*/sampling=coupled", "needs a temperature above 0"}}) {
      check_refused(model + rest + prompt, 2, sentence);
    }
  }
  const std::string mixed =
      scene.file("mixed.jsonl", "{\"prompt\": \"a\", \"temperature\": 0}\n{\"prompt\": \"b\"}\n");
  const CommandResult run =
      run_versieve(model +
                   "--json --strategy nsa/d4k1n5/bfs/c1/F*/sampling=exact --temperature 1 "
                   "--top-k 5 --max-new-tokens 4 --prompts " +
                   mixed);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(json::parse(run.out).at("remarks").dump().find("cut nothing of 1 of 2 requests") !=
        std::string::npos);
}
