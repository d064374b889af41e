#include "src/report/predictions_file.h"

#include <fmt/format.h>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/report/csv.h"
#include "src/report/output_place.h"

namespace carillon {
namespace {

std::string header(std::size_t top_count) {
  std::string line = "file,record,picture,true,predicted";
  for (std::size_t place = 1; place <= top_count; ++place) line += fmt::format(",class_{0},probability_{0}", place);
  return line.append(csv_line_end);
}

std::string line_of(const Prediction& prediction, const RecordOrigin& origin, std::size_t top_count,
                    std::span<const std::string> class_names) {
  const auto name = [&](std::int32_t label) {
    const auto i = static_cast<std::size_t>(label);
    return i < class_names.size() ? csv_field(class_names[i]) : std::to_string(label);
  };
  std::string line = fmt::format("{},{},{},{},{}", csv_field(origin.file), origin.number, csv_field(origin.picture),
                                 name(prediction.label), name(prediction.predicted()));
  for (std::size_t place = 0; place < top_count; ++place) {
    line += fmt::format(",{},{:.6g}", name(prediction.classes[place]), prediction.probabilities[place]);
  }
  return line.append(csv_line_end);
}

}  // namespace

void check_predictions_place(const std::filesystem::path& path) { check_output_place("predictions", path, ".csv"); }

void write_predictions(const std::filesystem::path& path, const Predictions& predictions,
                       const std::function<RecordOrigin(std::size_t)>& origin_of,
                       std::span<const std::string> class_names) {
  constexpr std::size_t block_bytes = 1 << 20;
  NewFile file(path);
  std::string text = header(predictions.top_count());
  for (std::size_t i = 0; i < predictions.samples.size(); ++i) {
    text += line_of(predictions.samples[i], origin_of(i), predictions.top_count(), class_names);
    if (text.size() < block_bytes) continue;
    file.write(std::as_bytes(std::span(text)));
    text.clear();
  }
  file.write(std::as_bytes(std::span(text)));
  file.finish();
  file.publish();
  sync_directory(file.directory());
}

}  // namespace carillon
