#include "clients/cli/access/list_pages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/cat.h"

namespace clients {

using common::Result;
using common::Status;
using Json = nlohmann::ordered_json;

namespace {

// Names of objects are not compared: a list has thousands, and no page repeats another's.
void append(Json& list, Json&& rows) {
  if (list.is_null()) {
    list = std::move(rows);
  } else if (list.is_array() && rows.is_array()) {
    std::move(rows.begin(), rows.end(), std::back_inserter(list.get_ref<Json::array_t&>()));
  } else if (list.is_object() && rows.is_object()) {
    auto& named = rows.get_ref<Json::object_t&>();
    std::move(named.begin(), named.end(), std::back_inserter(list.get_ref<Json::object_t&>()));
  }
}

}  // namespace

Status for_each_page(const PageOf& page_of, const std::function<bool(Json& page)>& visit) {
  std::string after;
  while (true) {
    LFARM_ASSIGN_OR_RETURN(Json page, page_of(after));
    auto found = page.find("next");
    const bool has_more = found != page.end() && found->is_string();
    std::string next = has_more ? found->get<std::string>() : std::string();
    if (has_more && next == after) return {};
    if (!visit(page) || next.empty()) return {};
    after = std::move(next);
  }
}

Result<Json> whole_list(FarmClient& farm, common::StatusTopic topic,
                        const std::vector<std::string>& lists) {
  auto page_of = [&](const std::string& after) -> Result<Json> {
    LFARM_ASSIGN_OR_RETURN(std::string text, farm.status(topic, {}, after));
    Json page = Json::parse(text, nullptr, false);
    if (page.is_object()) return page;
    return common::corrupt("the farm's answer is no status; use the same version on both sides");
  };
  return whole_list(page_of, lists);
}

Result<Json> whole_list(const PageOf& page_of, const std::vector<std::string>& lists) {
  Json whole = Json::object();
  std::vector<Json> rows(lists.size());
  LFARM_RETURN_IF_ERROR(for_each_page(page_of, [&](Json& page) {
    for (size_t k = 0; k < lists.size(); ++k) {
      auto found = page.find(lists[k]);
      if (found == page.end()) continue;
      append(rows[k], std::exchange(*found, nullptr));  // which keeps its place
    }
    // Of the rows behind a page, which follow it.
    whole.erase("omitted");
    whole.update(page);
    return true;
  }));
  for (size_t k = 0; k < lists.size(); ++k) {
    if (!rows[k].is_null()) whole[lists[k]] = std::move(rows[k]);
  }
  whole.erase("next");
  return whole;
}

}  // namespace clients
