#include "src/cli/options/run_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace carillon {
namespace {

/// Returns a text about a consequence that users may not expect when they change this setting. The result is empty if
/// there is none.
std::string_view consequence(std::string_view name) {
  if (name == "tower count") {
    return " (sums may round differently; without --global-batch a step takes another number of samples)";
  }
  if (name == "winograd convolutions") return " (sums may round differently)";
  if (name == "instruction set") return " (equal bits only on the same instruction set)";
  return "";
}

}  // namespace

void RunDescription::add(std::string name, FieldValue value, Scope scope) {
  settings_.push_back({{std::move(name), std::move(value)}, scope});
}

void RunDescription::replace(const std::string& name, const FieldValue& value) {
  for (Setting& setting : settings_) {
    if (setting.field.name == name) setting.field.value = value;
  }
}

void RunDescription::remove(const std::string& name) {
  std::erase_if(settings_, [&](const Setting& setting) { return setting.field.name == name; });
}

void RunDescription::mark_without_effect(std::string_view option) {
  for (Setting& setting : settings_) {
    if (shown_name(setting.field.name).substr(2) == option) setting.scope = Scope::run;
  }
}

std::vector<Field> RunDescription::fields() const {
  std::vector<Field> fields;
  for (const Setting& setting : settings_) fields.push_back(setting.field);
  return fields;
}

std::string RunDescription::json() const { return json_text(fields()); }

std::vector<std::string> RunDescription::changes_since(const std::string& json_before) const {
  const nlohmann::json before = nlohmann::json::parse(json_before, nullptr, false);
  std::vector<std::string> lines;
  for (const auto& [field, scope] : settings_) {
    if (scope != Scope::result || !before.is_object() || !before.contains(field.name)) continue;
    const std::string now = json_text(field.value);
    if (before[field.name] == nlohmann::json::parse(now)) continue;
    lines.push_back(fmt::format("{} was {} up to the checkpoint and is {} from here{}", shown_name(field.name),
                                before[field.name].dump(), now, consequence(field.name)));
  }
  return lines;
}

std::string shown_name(std::string name) {
  if (name == "tower count") return "number of ranks";  // checkpoints keep this older name
  if (name.find(' ') != std::string::npos) return name;
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

}  // namespace carillon
