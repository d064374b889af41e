#include "src/report/predictions_file.h"

#include <gmock/gmock.h>

#include "tests/support/io_fixtures.h"

namespace carillon::testing {
namespace {

std::string written(const PredictionTable& table) {
  const TemporaryDirectory directory;
  write_predictions(directory.path() / "p.csv", table, [](std::size_t i) {
    return RecordOrigin{.file = "a,b", .number = 5 + i, .picture = i == 0 ? "x.jpg" : ""};
  });
  return read_text(directory.path() / "p.csv");
}

TEST(PredictionsFile, LabelsAreSeparatedBySemicolons) {
  StoredSamples samples(3, 3);
  const std::vector<float> logits{1.0f, 0.0f, 2.0f, -1.0f, -1.0f, -1.0f};
  const std::vector<std::uint8_t> targets{1, 1, 0, 0, 0, 0};
  samples.add(logits, std::as_bytes(std::span(targets)));
  const std::vector<std::string> names{"boat", "sea", "tree"};
  EXPECT_EQ(written(label_table(samples, names)),
            "file,record,picture,true,predicted,boat,sea,tree\r\n"
            "\"a,b\",5,x.jpg,boat;sea,boat;tree,0.731059,0.5,0.880797\r\n"
            "\"a,b\",6,,,,0.268941,0.268941,0.268941\r\n");
}

TEST(PredictionsFile, NumbersHaveTheirUnit) {
  RegressionMetric metric({{.mean = 10.0, .deviation = 2.0}, {}});
  const std::vector<float> outputs{0.5f, 3.0f}, targets{-1.0f, 2.5f};
  metric.add(outputs, std::as_bytes(std::span(targets)));
  const std::vector<std::string> names{"age"};
  EXPECT_EQ(written(number_table(metric, names)),
            "file,record,picture,true age,predicted age,true 1,predicted 1\r\n\"a,b\",5,x.jpg,8,11,2.5,3\r\n");
}

}  // namespace
}  // namespace carillon::testing
