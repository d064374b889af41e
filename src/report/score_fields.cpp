#include "src/report/score_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace carillon {
namespace {

std::string name_of(std::string_view prefix, const std::string& name) { return std::string(prefix) + name; }

std::optional<std::int64_t> count_in(const nlohmann::json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

}  // namespace

std::vector<Field> score_fields(const Score& score, std::string_view prefix) {
  if (!score.ratio) return {{name_of(prefix, score.logged_as()), score.value}};
  return {{name_of(prefix, score.ratio->part_name), score.ratio->part},
          {name_of(prefix, score.ratio->whole_name), score.ratio->whole}};
}

std::optional<Score> score_in(const nlohmann::json& object, const Score& form, std::string_view prefix) {
  if (!object.is_object()) return std::nullopt;
  Score score = form;
  if (!score.ratio) {
    const auto found = object.find(name_of(prefix, score.logged_as()));
    if (found == object.end() || !found->is_number()) return std::nullopt;
    score.value = found->get<double>();
    return score;
  }
  const auto part = count_in(object, name_of(prefix, score.ratio->part_name));
  const auto whole = count_in(object, name_of(prefix, score.ratio->whole_name));
  if (!part || !whole || *whole <= 0) return std::nullopt;
  score.ratio->part = *part;
  score.ratio->whole = *whole;
  score.value = score.ratio->value();
  return score;
}

std::string counts_text(const Score& score) {
  return score.ratio ? fmt::format("{}/{}", score.ratio->part, score.ratio->whole) : "";
}

}  // namespace carillon
