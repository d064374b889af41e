#include "src/report/prediction_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/text_file.h"
#include "src/images/picture.h"
#include "src/report/evaluation_report.h"
#include "src/tasks/predictions.h"

namespace carillon {
namespace {

std::string probability_text(double probability) { return fmt::format("{:.6g}", probability); }

/// Returns a number in its unit as text. Records and networks store standardised float32 numbers, so more digits would
/// be noise.
std::string number_text(double number, const NumberScale& scale) {
  constexpr int digits = 6, most = 20;
  const int decimals = std::min(digits - static_cast<int>(std::floor(std::log10(scale.deviation))), most);
  if (decimals < 0) return fmt::format("{:.9g}", number);
  std::string text = fmt::format("{:.{}f}", number, decimals);
  if (decimals > 0) text.resize(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string header(const PredictionTable& table) {
  std::string line = "file,record,picture";
  for (const std::string& column : table.columns) line.append(",").append(csv_field(column));
  return line.append(csv_line_end);
}

std::string line_of(const std::vector<std::string>& cells, const RecordOrigin& origin) {
  std::string line = fmt::format("{},{},{}", csv_field(origin.file), origin.number, csv_field(origin.picture));
  for (const std::string& cell : cells) line.append(",").append(csv_field(cell));
  return line.append(csv_line_end);
}

}  // namespace

PredictionTable class_table(const Predictions& predictions, std::span<const std::string> names) {
  PredictionTable table{.columns = {"true", "predicted"}, .record_count = predictions.samples.size(), .cells = {}};
  for (std::size_t place = 1; place <= predictions.top_count(); ++place) {
    table.columns.push_back(fmt::format("class_{}", place));
    table.columns.push_back(fmt::format("probability_{}", place));
  }
  table.cells = [&predictions, names](std::size_t record) {
    const Prediction& prediction = predictions.samples[record];
    std::vector<std::string> cells{name_or_number(names, static_cast<std::size_t>(prediction.label)),
                                   name_or_number(names, static_cast<std::size_t>(prediction.predicted()))};
    for (std::size_t place = 0; place < predictions.top_count(); ++place) {
      cells.push_back(name_or_number(names, static_cast<std::size_t>(prediction.classes[place])));
      cells.push_back(probability_text(prediction.probabilities[place]));
    }
    return cells;
  };
  return table;
}

PredictionTable label_table(const StoredSamples& samples, std::span<const std::string> names) {
  PredictionTable table{.columns = {"true", "predicted"}, .record_count = samples.count(), .cells = {}};
  for (std::size_t label = 0; label < samples.columns(); ++label)
    table.columns.push_back("probability " + name_or_number(names, label));
  table.cells = [&samples, names](std::size_t record) {
    std::vector<std::string> cells(2);
    for (std::size_t label = 0; label < samples.columns(); ++label) {
      const std::size_t at = record * samples.columns() + label;
      const float logit = samples.outputs()[at];
      const std::array<bool, 2> has{samples.targets()[at] != std::byte{0}, predicts_label(logit)};
      for (std::size_t i = 0; i < has.size(); ++i) {
        if (has[i]) cells[i].append(cells[i].empty() ? "" : ";").append(name_or_number(names, label));
      }
      cells.push_back(probability_text(label_probability(logit)));
    }
    return cells;
  };
  return table;
}

PredictionTable number_table(const RegressionMetric& metric, std::span<const std::string> names) {
  const std::size_t count = metric.samples().columns();
  PredictionTable table{.columns = {}, .record_count = metric.samples().count(), .cells = {}};
  for (std::size_t i = 0; i < count; ++i) {
    table.columns.push_back("true " + name_or_number(names, i));
    table.columns.push_back("predicted " + name_or_number(names, i));
  }
  table.cells = [&metric, count](std::size_t record) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < count; ++i) {
      cells.push_back(number_text(metric.target(record, i), metric.scale(i)));
      cells.push_back(number_text(metric.predicted(record, i), metric.scale(i)));
    }
    return cells;
  };
  return table;
}

void check_predictions_place(const std::filesystem::path& path) { check_output_place("predictions", path, ".csv"); }

void write_predictions(const std::filesystem::path& path, const PredictionTable& table,
                       const std::function<RecordOrigin(std::size_t)>& origin_of) {
  constexpr std::size_t block_bytes = 1 << 20;
  NewFile file(path);
  std::string text = header(table);
  for (std::size_t i = 0; i < table.record_count; ++i) {
    text += line_of(table.cells(i), origin_of(i));
    if (text.size() < block_bytes) continue;
    file.write(std::as_bytes(std::span(text)));
    text.clear();
  }
  file.write(std::as_bytes(std::span(text)));
  file.finish();
  file.publish();
  sync_directory(file.directory());
}

namespace {

/// Returns a name for one line of a tile. Spaces replace line breaks.
std::string line_of(std::string name) {
  for (char& c : name) c = c == '\n' ? ' ' : c;
  return name;
}

}  // namespace

std::string mistake_sheet(const std::vector<ShownPrediction>& mistakes) {
  std::vector<SheetTile> tiles;
  for (const ShownPrediction& shown : mistakes) {
    tiles.push_back(
        {.height = shown.picture.height,
         .width = shown.picture.width,
         .pixels = shown.picture.pixels,
         .text = fmt::format("{}\n> {}\n{}", line_of(shown.truth), line_of(shown.predicted), shown.rating)});
  }
  if (tiles.empty()) tiles.push_back({.text = "no mistakes"});
  return encode_png(make_sheet(tiles));
}

void check_sheet_place(const std::filesystem::path& path) { check_output_place("mistakes", path, ".png"); }

void write_mistake_sheet(const std::filesystem::path& path, const std::vector<ShownPrediction>& mistakes) {
  const std::string file = mistake_sheet(mistakes);
  write_file_atomically(path, std::as_bytes(std::span(file)));
}

}  // namespace carillon
