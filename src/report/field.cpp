#include "src/report/field.h"

#include <nlohmann/json.hpp>

#include "src/core/text.h"

namespace carillon {
namespace {

nlohmann::json json_of(const FieldValue& value) {
  return std::visit([](const auto& held) { return nlohmann::json(held); }, value);
}

std::string text_of(const nlohmann::json& json) {
  return printable_json(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::string json_text(const FieldValue& value) { return text_of(json_of(value)); }

std::string json_text(const std::vector<Field>& fields) {
  nlohmann::json object = nlohmann::json::object();
  for (const Field& field : fields) object[field.name] = json_of(field.value);
  return text_of(object);
}

}  // namespace carillon
