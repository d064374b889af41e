// read_benchmark: how fast one thread reads MNIST-like records from the page cache, by each way that Carillon has.
//
//   tfrecord_convert mnist --input DIR --output data && read_benchmark data/train-00000-of-00001.tfrecord
//   read_benchmark                              600000 records of its own making in a temporary directory, plain and
//   GZIP
// "decoded" is what training pays once: both checksums of every record, the Example parsed, the image copied out.
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "carillon/core/error.h"
#include "carillon/core/single_process_main.h"
#include "carillon/data/batch_loader.h"
#include "carillon/data/dataset.h"
#include "carillon/data/record.h"
#include "src/data/example_generated.h"
#include "src/data/sources/mnist_source.h"

namespace carillon {
namespace {

const std::shared_ptr<const RecordDecoder> mnist_decoder = make_grey_decoder(
    {.keys = {.image = "image_raw", .label = "label"}, .image_shape = {28, 28, 1}, .class_count = 10});
constexpr int trial_count = 7;

/// Images with MNIST's share of zeros (81 %) and of pixels from 128 up (10 %).
ImageSplit synthetic_split(std::size_t count) {
  ImageSplit split{.name = "train", .image_bytes = 784, .images = {}, .labels = {}};
  std::mt19937 random(1);
  for (std::size_t i = 0; i < count * split.image_bytes; ++i) {
    const auto draw = static_cast<std::uint32_t>(random());
    const std::uint32_t kind = draw % 100;
    split.images.push_back(static_cast<std::uint8_t>(kind < 81 ? 0 : kind < 90 ? draw >> 25 : 128 + (draw >> 25)));
  }
  for (std::size_t i = 0; i < count; ++i) split.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return split;
}

std::string compress(const std::string& plain_path) {
  const std::string path = plain_path + ".gz";
  std::ifstream plain(plain_path, std::ios::binary);
  const gzFile out = gzopen(path.c_str(), "wb6");
  std::vector<char> buffer(1 << 20);
  while (plain.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), plain.gcount() > 0)
    gzwrite(out, buffer.data(), static_cast<unsigned>(plain.gcount()));
  gzclose(out);
  return path;
}

/// Runs `pass`, which returns its record count, several times and prints the best and the median rate.
template <typename Pass>
void measure(const std::string& what, const Pass& pass) {
  std::vector<double> rates;
  for (int trial = 0; trial < trial_count; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t records = pass();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(records) / seconds.count());
  }
  std::ranges::sort(rates);
  fmt::print("  {:<44} {:>12.0f} records/s  (median {:.0f})\n", what, rates.back(), rates[rates.size() / 2]);
}

std::size_t read_framing(const std::string& path, RecordCheck check) {
  RecordReader reader(path, check);
  std::size_t count = 0;
  for (Record record; reader.next(record);) ++count;
  return count;
}

std::size_t read_decoded(const std::string& path) {
  RecordReader reader(path);
  std::vector<std::uint8_t> image(mnist_decoder->image_shape().bytes());
  std::size_t count = 0;
  for (Record record; reader.next(record); ++count) mnist_decoder->decode(record.data, 0, image);
  return count;
}

std::size_t read_generated(const std::string& path) {
  RecordReader reader(path);
  std::string image;
  std::size_t count = 0;
  for (Record record; reader.next(record); ++count) {
    parse_example_generated(record.data, {.image = "image_raw", .label = "label"}, image);
  }
  return count;
}

std::size_t read_batches(const Dataset& dataset) {
  constexpr std::size_t batch_size = 100;
  BatchLoader loader(dataset, SampleOrder(dataset.size(), 1, true),
                     {.start = 0, .global_batch = batch_size, .tower_offset = 0, .batch_size = batch_size});
  const std::size_t batch_count = dataset.size() / batch_size;
  for (std::size_t step = 0; step < batch_count; ++step) loader.next();
  return batch_count * batch_size;
}

void print_peak() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("  peak resident set so far {} MiB\n", usage.ru_maxrss >> 10);
}

void measure_file(const std::string& path) {
  const std::vector<std::string> paths = {path};
  const bool gzip = RecordReader(path).gzip();
  fmt::print("{} ({}, {} bytes)\n", path, gzip ? "GZIP" : "plain", std::filesystem::file_size(path));
  measure("framing", [&] { return read_framing(path, RecordCheck::framing); });
  measure("verified", [&] { return read_framing(path, RecordCheck::data); });
  measure("verified, decoded", [&] { return read_decoded(path); });
  measure("verified, decoded by the generated parser", [&] { return read_generated(path); });
  measure("Dataset::open, cached", [&] { return Dataset::open(paths, mnist_decoder, CacheMode::memory).size(); });
  print_peak();
  if (gzip) return;
  measure("Dataset::open, indexed", [&] { return Dataset::open(paths, mnist_decoder, CacheMode::none).size(); });
  const Dataset cached = Dataset::open(paths, mnist_decoder, CacheMode::memory);
  measure("shuffled batches of 100, cached", [&] { return read_batches(cached); });
  const Dataset indexed = Dataset::open(paths, mnist_decoder, CacheMode::none);
  measure("shuffled batches of 100, indexed", [&] { return read_batches(indexed); });
}

int benchmark(std::span<char* const> arguments) {
  std::vector<std::string> files(arguments.begin(), arguments.end());
  const std::filesystem::path scratch =
      std::filesystem::temp_directory_path() / fmt::format("carillon_read_benchmark.{}", ::getpid());
  if (files.empty()) {
    const auto written = write_shards(synthetic_split(600'000), 1, scratch, encode_mnist, [](std::size_t) {});
    files = {written.files.front().string(), compress(written.files.front().string())};
  }
  for (const std::string& file : files) measure_file(file);
  std::filesystem::remove_all(scratch);
  print_peak();
  return 0;
}

}  // namespace
}  // namespace carillon

int main(int argc, char** argv) {
  return carillon::single_process_main("read_benchmark", [&] {
    return carillon::benchmark(std::span<char* const>(argv + 1, static_cast<std::size_t>(argc - 1)));
  });
}
