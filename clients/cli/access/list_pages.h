// Lists that come by pages: JSON objects whose "next" says where the page behind them begins.
//
//   for_each_page(page_of, [&](Json& page) {
//     for (const Json& row : page["plans"]) print(row);
//     return true;
//   })
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/result.h"

namespace clients {

// A page, which is an object: the first one for an empty `after`.
using PageOf = std::function<common::Result<nlohmann::ordered_json>(const std::string& after)>;

// Visits one page after the other, until one has no "next" or the visitor returns false. Holds one
// at a time. Farms before the one that knows `after` give their first page again, which ends the
// list.
common::Status for_each_page(const PageOf& page_of,
                             const std::function<bool(nlohmann::ordered_json& page)>& visit);

// All pages as one: the members named in `lists` hold the rows of all, arrays or objects; the
// others are the last page's that has them. A list that no page has is missing.
common::Result<nlohmann::ordered_json> whole_list(const PageOf& page_of,
                                                  const std::vector<std::string>& lists);
// The same of what a farm says on `topic`. kCorrupt when that is no object.
common::Result<nlohmann::ordered_json> whole_list(FarmClient& farm, common::StatusTopic topic,
                                                  const std::vector<std::string>& lists);

}  // namespace clients
