#include "src/report/json_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "src/core/text.h"

namespace carillon {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json) {
  return printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Json json_of(const EvaluatedNetwork& network) {
  return {{"checkpoint", network.checkpoint},
          {"model", network.model},
          {"global_step", network.step},
          {"values", network.values}};
}

std::string json_lines(const Json& object) {
  std::string text;
  for (const auto& [name, value] : object.items()) {
    text += fmt::format("{}\n  {}: ", text.empty() ? "{" : ",", line_of(name));
    if (!value.is_array()) {
      text += line_of(value);
      continue;
    }
    text += "[";
    std::string_view before = "";
    for (const Json& element : value) {
      text += fmt::format("{}\n    {}", before, line_of(element));
      before = ",";
    }
    text += "\n  ]";
  }
  return text + "\n}\n";
}

}  // namespace carillon
