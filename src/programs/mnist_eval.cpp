// mnist_eval: prints the accuracy (precision @ 1) of a checkpoint of mnist_train.
//
//   mnist_eval --data 'data/mnist/test-*' --checkpoint runs/mnist
#include "carillon/app/mains.h"

int main(int argc, char** argv) {
  return carillon::evaluation_main("mnist_eval", carillon::mnist_program(), argc, argv);
}
