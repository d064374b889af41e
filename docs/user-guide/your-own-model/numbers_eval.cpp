// numbers_eval --data 'data/numbers/test-*' --checkpoint runs/numbers
#include <carillon/cli/program_spec.h>

#include "numbers.h"

int main(int argc, char** argv) { return carillon::evaluation_main("numbers_eval", numbers_program(), argc, argv); }
