#include <algorithm>

#include "engine/analyse/figures/figure.h"
#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& cell, int digits) {
  if (cell.is_null()) {
    return "-";
  }
  if (cell.is_string()) {
    return cell.get<std::string>();
  }
  return cell.is_number_integer() ? std::to_string(cell.get<std::int64_t>())
                                  : formatted("%.*f", digits, cell.get<double>());
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - std::min(width, text.size()), ' ');
  return left ? text + space : space + text;
}

std::string table_text(const FigureTable& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const FigureTable::Column& column : table.columns) {
    lines[0].push_back(column.name);
  }
  for (const std::vector<Json>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) {
      line.push_back(text_of(row[c], table.columns[c].digits));
    }
  }
  std::vector<std::size_t> width(table.columns.size(), 0);
  for (const std::vector<std::string>& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      width[c] = std::max(width[c], line[c].size());
    }
  }
  std::string out = "  " + table.caption + "\n";
  for (const std::vector<std::string>& line : lines) {
    std::string text = "   ";
    for (std::size_t c = 0; c < line.size(); ++c) {
      text += " " + padded(line[c], width[c], c == 0) + (c + 1 < line.size() ? " " : "");
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? std::string("\"\"") : std::string(1, c);
  }
  return out + "\"";
}

Json tables_json(const std::vector<FigureTable>& tables) {
  Json out = Json::array();
  for (const FigureTable& table : tables) {
    Json columns = Json::array();
    for (const FigureTable::Column& column : table.columns) {
      columns.push_back(column.name);
    }
    out.push_back({{"caption", table.caption}, {"columns", columns}, {"rows", table.rows}});
  }
  return out;
}

std::string csv_lines(const std::string& figure, const FigureTable& table) {
  std::string out;
  for (const std::vector<Json>& row : table.rows) {
    for (std::size_t c = 1; c < row.size(); ++c) {
      const Json& cell = row[c];
      out += quoted(figure) + "," + quoted(table.caption) + "," + quoted(text_of(row[0], 0)) + "," +
             quoted(table.columns[c].name) + "," +
             (cell.is_null()     ? std::string()
              : cell.is_string() ? quoted(cell.get<std::string>())
                                 : cell.dump()) +
             "\n";
    }
  }
  return out;
}

}  // namespace

std::string figures_text(const std::vector<Figure>& figures) {
  std::string out;
  for (const Figure& figure : figures) {
    out += (out.empty() ? "" : "\n") + figure.name + ": " + figure.asks +
           "\n  the paper: " + figure.paper + "\n";
    for (const std::vector<FigureTable>* tables : {&figure.papers, &figure.tables}) {
      for (const FigureTable& table : *tables) {
        out += table_text(table);
      }
    }
    for (const std::string& sentence : figure.missing) {
      out += "  not told: " + sentence + "\n";
    }
  }
  return out;
}

Json figures_json(const std::vector<Figure>& figures) {
  Json out = Json::array();
  for (const Figure& figure : figures) {
    out.push_back({{"name", figure.name},
                   {"asks", figure.asks},
                   {"paper", figure.paper},
                   {"paper_tables", tables_json(figure.papers)},
                   {"tables", tables_json(figure.tables)},
                   {"missing", figure.missing}});
  }
  return out;
}

std::string figures_csv(const std::vector<Figure>& figures) {
  std::string out = "figure,table,row,column,value\n";
  for (const Figure& figure : figures) {
    for (const std::vector<FigureTable>* tables : {&figure.papers, &figure.tables}) {
      for (const FigureTable& table : *tables) {
        out += csv_lines(figure.name, table);
      }
    }
  }
  return out;
}

}  // namespace versieve::engine
