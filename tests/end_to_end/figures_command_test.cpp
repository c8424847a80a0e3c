// `versieve figures` on the measurements that ship, as a user meets it.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

const std::string kShipped = " --db " VERSIEVE_SOURCE_DIR "/db/measured/h100.db";

}  // namespace

TEST_CASE("the shipped points fill figure 7 and table 2 beside the paper's numbers") {
  const TempFolder folder;
  const std::string csv = (folder / "cells.csv").string();
  const CommandResult result =
      run_versieve("figures --json --figure 7 --table 2 --csv " + csv + kShipped);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  REQUIRE(json.at("figures").size() == 2);
  const nlohmann::json& latency = json.at("figures")[0];
  CHECK(latency.at("name") == "figure 7");
  CHECK(latency.at("paper_tables").empty());
  REQUIRE(!latency.at("tables").empty());
  const nlohmann::json& one_query = latency.at("tables")[0].at("rows")[0];
  CHECK(one_query[0] == 1);
  CHECK(one_query[1].get<double>() > 1.0);  // of both a dense and a sparse layer
  CHECK(one_query[2].get<double>() > 1.0);
  const nlohmann::json& prompts = json.at("figures")[1];
  CHECK(prompts.at("paper_tables")[0].at("rows").size() == 4);
  CHECK(json.at("pair") == "smollm2-nsa");
  REQUIRE(!prompts.at("tables").empty());
  CHECK(prompts.at("tables")[0].at("rows").back()[0] == "first");
  std::ifstream file(csv);
  std::string line;
  std::getline(file, line);
  CHECK(line == "figure,table,row,column,value");
}

TEST_CASE("figure 7 ships whole: layers and steps, dense and sparse, by draft length") {
  const CommandResult result = run_versieve("figures --json --figure 7 --db " VERSIEVE_SOURCE_DIR
                                            "/db/measured/h100-figures.db");
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("device") == "NVIDIA H100 80GB HBM3");
  const nlohmann::json& figure = json.at("figures")[0];
  CHECK(figure.at("missing").empty());
  REQUIRE(figure.at("tables").size() == 4);  // a layer and a step at 16K and 64K
  for (const nlohmann::json& table : figure.at("tables")) {
    CAPTURE(table.at("caption").get<std::string>());
    const nlohmann::json& rows = table.at("rows");
    const nlohmann::json& longest = rows[rows.size() - 1];
    // With 128 queries the sparse form takes less than the dense one, and groups less than that.
    CHECK(longest[1].get<double>() > longest[2].get<double>());
    CHECK(longest[2].get<double>() > longest[3].get<double>());
    CHECK(longest[1].get<double>() > rows[1][1].get<double>());  // longer drafts take longer
  }
}

TEST_CASE("figures that the points do not hold are answered by the sweep that measures them") {
  const CommandResult result = run_versieve("figures --table 4" + kShipped);
  CHECK(result.code == 1);
  CHECK(result.out.find("the paper: tokens/s") != std::string::npos);
  CHECK(result.out.find("not told: as of table 3") != std::string::npos);
  check_refused("figures --pair nobody" + kShipped, 1, "the points hold smollm2-nsa");
  check_refused("figures --figure 3" + kShipped, 2, "figure");
  check_refused("figures --figure 2 --context 0" + kShipped, 2, "not in range 1 to 1048576");
  check_refused("figures --db none.db", 3, "none.db");
}
