// What a plan says of speculation and of several requests at once, as readable text: from how many
// tokens a step on it pays, how likely it loses, what a request sees, how many fit into memory,
// where one kind of draft yields to another.
#pragma once

#include <QString>

#include "model/plan/concurrency.h"

namespace versieve::gui {

// Against plain decoding of as many requests; none of plain decoding itself.
std::optional<Speculation> speculation_of_entry(const PlanTable& table, const PlanEntry& entry);
// "even at 1.79 tokens a step, loses p 0.03"; empty of plain decoding.
QString even_text(const PlanTable& table, const PlanEntry& entry);
// Rows of an entry's description: break-even and loss, of several requests each one's share too,
// and memory. `table`: of the entry's number of requests.
QString speculation_rows(const PlanTable& table, const PlanEntry& entry);
// "51 fit": requests of that range with a draft; empty where the plan does not hold it to memory.
QString memory_text(const PlanTable& table, int bucket);
// The whole sentence.
QString memory_sentence(const PlanTable& table, int bucket);
// Whether that number of requests has the most tokens a second of the class there, within the bound
// if there is one. `plan`: with all numbers of requests, of which there are several.
bool is_operating_point(const PlanTable& plan, const PlanTable& table, const PlanEntry& entry);
// "tree to chain at 23 at once (90 %: 9 – more than 64)"
QString switch_text(const PlanTable& plan, const SwitchPoint& point);
// What intervals of several requests rest on, bounds and what ranks; empty of a plan of one without.
QString batch_summary(const PlanTable& plan);

}  // namespace versieve::gui
