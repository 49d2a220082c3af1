create table pairs as select n, n * n as square from generate_series(1, 5000) n;
select count(*), sum(square) from pairs where n % 7 = 3;
create index on pairs (square);
select n from pairs where square = 12321;
